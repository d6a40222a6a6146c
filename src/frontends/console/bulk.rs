//! Commands that a person confirmed together. A few are sent at a time. Once all have ended, a summary and the reasons
//! of refusals are reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::event::Outbox;
use super::prompt::Confirm;
use super::render_context::Tone;
use crate::control::{Command, ControlError, Receipt};
use crate::present::{joined, thousands};

/// Maximum number of commands, of those confirmed together, that are under way at once, so that the engine serves other
/// requests meanwhile.
const AT_ONCE: usize = 8;
/// Maximum number of reasons of refusals that are reported.
const REASONS_MAX: usize = 4;

pub(super) struct BulkCommands {
    /// The commands in words, such as `retry 12 steps`.
    pub(super) what: String,
    reason: String,
    left: VecDeque<Command>,
    /// Tickets of the commands under way.
    sent: BTreeSet<u64>,
    done: usize,
    /// Whether the commands retry steps: their receipts count the steps. Other receipts count nothing.
    is_retry: bool,
    /// Number of retries that found no step to retry.
    idle: usize,
    /// Number of commands that were refused or failed, by the error.
    refused: BTreeMap<String, usize>,
}

impl BulkCommands {
    pub(super) fn of(confirm: Confirm) -> Self {
        let retries =
            |it: &Command| matches!(it, Command::Retry { .. } | Command::RetryStep { .. });
        Self {
            reason: confirm.reason().to_owned(),
            is_retry: confirm.commands.iter().any(retries),
            what: confirm.words.what,
            left: confirm.commands.into(),
            sent: BTreeSet::new(),
            done: 0,
            idle: 0,
            refused: BTreeMap::new(),
        }
    }

    /// Sends the next commands, as many as may be under way.
    pub(super) fn send(&mut self, outbox: &mut Outbox) {
        while self.sent.len() < AT_ONCE
            && let Some(command) = self.left.pop_front()
        {
            let ticket = outbox.submit(command, &self.reason);
            self.sent.insert(ticket);
        }
    }

    /// Takes the receipt of one of the commands; returns false if it belongs to another command.
    pub(super) fn receive(&mut self, ticket: u64, receipt: &Result<Receipt, ControlError>) -> bool {
        let is_own = self.sent.remove(&ticket);
        match receipt {
            _ if !is_own => {}
            Ok(Receipt::Done { moved: 0 }) if self.is_retry => self.idle += 1,
            Ok(_) => self.done += 1,
            Err(error) => *self.refused.entry(error.to_string()).or_default() += 1,
        }
        is_own
    }

    /// Number of commands that were not sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.left.len()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.sent.is_empty() && self.left.is_empty()
    }

    /// Returns the outcome in words, with the summary last, because the last message stays on the screen. `:events`
    /// shows all of these messages.
    pub(super) fn messages(&self) -> Vec<(Tone, String)> {
        let refused: usize = self.refused.values().sum();
        let numbers = [
            (self.done, "done"),
            (self.idle, "had nothing to do"),
            (refused, "refused"),
        ];
        let numbers = numbers.into_iter().filter(|(n, _)| *n > 0);
        let numbers = numbers.map(|(n, word)| format!("{} {word}", thousands(n)));
        let summary = format!("{}: {}", self.what, joined(numbers, ", "));
        let mut reasons = self.refused.iter().take(REASONS_MAX);
        let last = match reasons.next() {
            Some((why, _)) => (Tone::Warn, format!("{summary}: {why}")),
            None => (Tone::Good, summary),
        };
        let others = reasons.map(|(why, n)| {
            let text = format!("{}: {} refused: {why}", self.what, thousands(*n));
            (Tone::Warn, text)
        });
        others.chain([last]).collect()
    }
}
