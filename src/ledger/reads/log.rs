//! Events, and how far a channel has been notified of them.

use crate::domain::notification::NotificationCursor;
use crate::ledger::store::{EventsOf, LedgerReads, LogReads, Stored};
use crate::ledger::{EventFilter, EventPage};

pub fn events<R: LedgerReads>(
    rows: &R,
    after: i64,
    filter: &EventFilter,
    limit: usize,
) -> Stored<R, EventPage> {
    // Only the narrowest filter is used, which has an index.
    let of = match (filter.step_id, &filter.deletion_id) {
        (Some(step), _) => Some(EventsOf::Step(step)),
        (None, Some(id)) => rows.find_deletion(id)?.map(EventsOf::Deletion),
        (None, None) => Some(EventsOf::All),
    };
    let range = rows.event_range()?;
    Ok(EventPage {
        events: match of {
            Some(of) => rows.load_events(after, of, limit)?,
            None => Vec::new(),
        },
        oldest: range.oldest,
        newest: range.newest,
    })
}

pub fn notification_cursor<R: LogReads>(rows: &R, channel: &str) -> Stored<R, NotificationCursor> {
    Ok(NotificationCursor {
        ledger_id: rows.ledger_id()?,
        newest: rows.event_range()?.newest,
        position: rows.load_cursor_position(channel)?,
    })
}
