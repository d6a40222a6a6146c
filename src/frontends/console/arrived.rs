//! Questions that the console has asked, and their answers on the way to the pane that asked.

use crate::control::{ControlError, Page, Request};

/// An answer on its way: the pane that asked takes it, by the number under which it asked (its ticket).
pub(crate) struct Arrived {
    ticket: u64,
    answer: Option<Result<Page, ControlError>>,
}

impl Arrived {
    pub(crate) fn new(ticket: u64, answer: Result<Page, ControlError>) -> Self {
        Self {
            ticket,
            answer: Some(answer),
        }
    }

    pub(crate) fn is_to(&self, asked: Option<u64>) -> bool {
        asked == Some(self.ticket)
    }

    /// The answer to a request of this type, if it was asked under this ticket; then nothing is asked any more.
    pub(crate) fn take<R: Request>(
        &mut self,
        asked: &mut Option<u64>,
    ) -> Option<Result<R::Answer, ControlError>> {
        asked.take_if(|asked| *asked == self.ticket)?;
        let answer = self.answer.take()?;
        Some(answer.and_then(R::answer))
    }
}
