//! Commands on a deletion that several panes offer: pause, retry, cancel, and the way to its purge ladder.

use super::panes::PaneRequest;
use super::prompt::Confirm;
use super::route::Route;
use crate::control::Command;
use crate::domain::ladder::PurgeScope;
use crate::domain::model::{Deletion, DeletionState, short_id};
use crate::present::target_words;

/// Pauses a deletion, or resumes it if it is paused.
pub(crate) fn pause(deletion: &Deletion) -> PaneRequest {
    let deletion_id = deletion.id.clone();
    let what = target_words(deletion);
    if deletion.state == DeletionState::Paused {
        PaneRequest::Submit {
            what: format!("resuming {what}"),
            command: Command::Resume { deletion_id },
        }
    } else {
        PaneRequest::Submit {
            what: format!("pausing {what}"),
            command: Command::Pause { deletion_id },
        }
    }
}

pub(crate) fn retry(deletion: &Deletion) -> PaneRequest {
    PaneRequest::Submit {
        what: format!("retry of {}", target_words(deletion)),
        command: Command::Retry {
            deletion_id: deletion.id.clone(),
        },
    }
}

/// The purge ladder for all stuck steps of a deletion.
pub(crate) fn ladder(deletion: &Deletion) -> Route {
    Route::Ladder {
        what: PurgeScope::Deletion(deletion.id.clone()),
        words: target_words(deletion),
    }
}

pub(crate) fn cancel(deletion: &Deletion) -> PaneRequest {
    let what = target_words(deletion);
    let confirm = Confirm::new(
        "y".to_owned(),
        vec!["y".to_owned(), "yes".to_owned()],
        format!("cancelling {what}"),
        Command::Cancel {
            deletion_id: deletion.id.clone(),
        },
    );
    let confirm = confirm.saying(vec![
        format!("Cancel the deletion of {what} ({})", short_id(&deletion.id)),
        "What was sent already runs to its end; what was not is released and stays.".to_owned(),
    ]);
    PaneRequest::Ask(Box::new(confirm))
}
