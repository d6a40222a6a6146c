//! The answer to a query of the console, on its way to the pane that sent the query.

use crate::control::{ControlError, Page, Request};

/// An answer that its pane takes. The pane recognizes it by its ticket, the number of the query.
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

    /// Takes the answer if its ticket is the one in `asked`, and clears `asked`.
    pub(crate) fn page(&mut self, asked: &mut Option<u64>) -> Option<Result<Page, ControlError>> {
        asked.take_if(|asked| *asked == self.ticket)?;
        self.answer.take()
    }

    /// As [`Self::page`], for a request of type `R`.
    pub(crate) fn take<R: Request>(
        &mut self,
        asked: &mut Option<u64>,
    ) -> Option<Result<R::Answer, ControlError>> {
        Some(self.page(asked)?.and_then(R::answer))
    }
}
