//! The age of the rows of a pane, decided and worded here for all panes, so that no pane shows old rows as if they
//! were current.
//!
//! Ages are rounded, because a screen at rest writes nothing: a list that is queried again every five seconds
//! always shows the same age.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Cell, RenderContext, Tone};
use crate::present::ago_words;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The rows do not change.
    Fixed,
    /// The rows follow the engine.
    Live,
    /// No answer has come yet, or a query is under way that takes longer than [`ASKING_SHOWN_AFTER`].
    Asking,
    /// The rows were queried at this time, and are queried again by a clock, or because they are out of date.
    Aged(DateTime<Utc>),
    /// The rows were queried at this time, and are queried again only if a person asks for that, or not at all.
    AsOf(DateTime<Utc>),
    /// The last query failed at this time; with `retries` it is sent again automatically.
    Failed { at: DateTime<Utc>, retries: bool },
}

impl Freshness {
    /// The words at the right of the title; `None` for rows that do not change. `last` is the time of the last
    /// snapshot, if the engine has ended or cannot be reached.
    pub(crate) fn words(self, look: &RenderContext, last: Option<DateTime<Utc>>) -> Option<Cell> {
        let as_of = |at| Cell::dim(format!("as of {}", look.time(at)));
        let age = |at| ago_words(look.now - at);
        Some(match (self, last) {
            (Self::Fixed, _) => return None,
            // The engine no longer answers, and no tick updates an age.
            (Self::Live | Self::Asking, Some(last)) => as_of(last),
            (Self::Aged(at), Some(_)) | (Self::AsOf(at), _) => as_of(at),
            (Self::Live, None) => Cell::dim("live"),
            (Self::Asking, None) => Cell::new("asking…", Tone::Busy),
            (Self::Aged(at), None) => Cell::dim(age(at)),
            (Self::Failed { at, retries }, last) => {
                let retries = retries && last.is_none();
                let then = if retries { ", retrying" } else { "" };
                Cell::new(format!("failed {}{then}", age(at)), Tone::Warn)
            }
        })
    }
}

/// A query that takes longer is shown as under way; a shorter one would only flicker.
pub(crate) const ASKING_SHOWN_AFTER: TimeDelta = TimeDelta::seconds(1);
