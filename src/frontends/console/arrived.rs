//! Questions that the console has asked, and their answers on the way to the pane that asked.

use crate::control::{ControlError, Page, Request};

/// The number under which a question was asked.
pub(crate) type Ticket = u64;

/// An answer on its way: the pane that asked takes it.
pub(crate) struct Arrived {
    ticket: Ticket,
    answer: Option<Result<Page, ControlError>>,
}

impl Arrived {
    pub(crate) fn new(ticket: Ticket, answer: Result<Page, ControlError>) -> Self {
        Self {
            ticket,
            answer: Some(answer),
        }
    }

    pub(crate) fn is_to(&self, asked: Option<Ticket>) -> bool {
        asked == Some(self.ticket)
    }

    /// The answer to a request of this type, if it was asked under this ticket; then nothing is asked any more.
    pub(crate) fn take<R: Request>(
        &mut self,
        asked: &mut Option<Ticket>,
    ) -> Option<Result<R::Answer, ControlError>> {
        asked.take_if(|asked| *asked == self.ticket)?;
        let answer = self.answer.take()?;
        Some(answer.and_then(R::answer))
    }
}
