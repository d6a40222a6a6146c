//! How old the rows of a pane are. It is decided and worded here for all panes, so that no pane shows old rows
//! as if they were true now.
//!
//! An age is rounded, because a screen at rest writes nothing: a list that is asked again every five seconds
//! always says the same.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Cell, RenderContext, Tone};
use crate::present::ago_words;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The rows do not change.
    Fixed,
    /// The rows follow the engine.
    Live,
    /// A query is under way that takes longer than a moment.
    Asking,
    /// Asked for at this time, and asked for again on a clock.
    Aged(DateTime<Utc>),
    /// Asked for at this time, and not again until a person asks.
    AsOf(DateTime<Utc>),
    /// The last query failed at this time; `retries` if it is sent again by itself.
    Failed { at: DateTime<Utc>, retries: bool },
}

impl Freshness {
    /// The words at the right of the title. `last` is the time of the last snapshot, if the engine has gone or cannot
    /// be reached.
    pub(crate) fn words(self, look: &RenderContext, last: Option<DateTime<Utc>>) -> Option<Cell> {
        let as_of = |at| Cell::dim(format!("as of {}", look.time(at)));
        let age = |at| ago_words(look.now - at);
        Some(match (self, last) {
            (Self::Fixed, _) => return None,
            // Nothing is answered any more, and nobody wakes the console to count the age.
            (Self::Live | Self::Asking, Some(last)) => as_of(last),
            (Self::Aged(at), Some(_)) | (Self::AsOf(at), _) => as_of(at),
            (Self::Live, None) => Cell::dim("live"),
            (Self::Asking, None) => Cell::new("asking…", Tone::Busy),
            (Self::Aged(at), None) => Cell::dim(age(at)),
            (Self::Failed { at, retries }, last) => {
                let then = if retries && last.is_none() {
                    ", retrying"
                } else {
                    ""
                };
                Cell::new(format!("failed {}{then}", age(at)), Tone::Warn)
            }
        })
    }
}

/// A query that takes longer is shown as under way; a shorter one would only flicker.
pub(crate) const ASKING_SHOWN_AFTER: TimeDelta = TimeDelta::seconds(1);
