//! Questions that one key answers: what quitting does to work and to commands that were not sent, and whether to
//! replace a file.

use termina::event::KeyCode;

use super::about::deletions_in;
use super::event::Effect;
use super::prompt::{Asked, Prompt};
use super::state::State;
use super::{Exit, reporting};
use crate::domain::model::DeletionState;
use crate::present::{count, joined};

pub(super) struct Question {
    pub(super) title: &'static str,
    /// Facts about the work, the commands or the file that the answer affects, one per line.
    pub(super) head: Vec<String>,
    /// The keys, each with what it does.
    pub(super) options: Vec<(char, OptionWords)>,
    /// The effect of choosing none of the options.
    stay: OptionWords,
}

impl Question {
    /// The keys, each with what it does; `none` is the word for choosing none of the options.
    pub(super) fn keys(&self, none: &str) -> Vec<(String, OptionWords)> {
        let options = self.options.iter();
        let options = options.map(|(key, words)| (key.to_string(), *words));
        options.chain([(none.to_owned(), self.stay)]).collect()
    }
}

/// The effect of an option in a few words, and the rest of the sentence.
type OptionWords = (&'static str, &'static str);

/// Returns the question that is open, if one is.
#[rustfmt::skip]
pub(super) fn open(state: &State) -> Option<Question> {
    let Some(Prompt::Question(asked)) = &state.prompt else { return None };
    let (title, head, options, stay) = match (asked, state.options.practice) {
        // A practice cloud ends with this process, so nothing can be left running.
        (Asked::Quit, Some(practice)) => {
            let ends = match practice.keeps_ledger {
                true => "The practice cloud ends with this console; its deletions stay in the ledger.",
                false => "The practice cloud ends with this console, and its deletions are lost.",
            };
            let options = vec![('s', ("stop it", ", and quit"))];
            ("quit", vec![work_words(state), ends.to_owned()], options, ("stay", ""))
        }
        (Asked::Quit, None) => {
            let options = vec![
                ('l', ("leave it running", " in the background, and quit")),
                ('s', ("stop it", "; the ledger keeps the work, and the next engine continues it")),
            ];
            ("quit", vec![work_words(state)], options, ("stay", ""))
        }
        (Asked::Unsent, _) => {
            let options = vec![('d', ("drop them", ", and quit: nothing more is sent for these rows"))];
            ("quit", vec![unsent_words(state)], options, ("stay", "; they are sent meanwhile"))
        }
        (Asked::Replace(report), _) => {
            let exists = format!("{} exists already.", report.file.display());
            let options = vec![('y', ("replace it", ""))];
            ("report", vec![exists], options, ("keep it", "; no report is written"))
        }
    };
    Some(Question { title, head, options, stay })
}

/// Answers the question; it stays open after a key that it does not offer.
pub(super) fn answer(state: &mut State, asked: Asked, pressed: KeyCode) {
    state.prompt = Some(Prompt::Question(asked.clone()));
    let mut options = open(state).into_iter().flat_map(|it| it.options);
    let Some((key, _)) = options.find(|(key, _)| KeyCode::Char(*key) == pressed) else {
        return;
    };
    state.prompt = None;
    match (asked, key) {
        (Asked::Quit, 'l') => state.outbox.push(Effect::Quit(Exit::LeaveRunning)),
        (Asked::Quit, _) => state.outbox.push(Effect::Quit(Exit::Stop)),
        (Asked::Replace(report), _) => reporting::write(state, report, true),
        (Asked::Unsent, _) => {
            state.bulks.clear();
            state.quit();
        }
    }
}

/// Says which work quitting would interrupt.
fn work_words(state: &State) -> String {
    let snapshot = &state.snapshot;
    let of = |state| deletions_in(state, snapshot);
    let to_approve = of(DeletionState::AwaitingApproval);
    let are = |n: u64| if n == 1 { "is" } else { "are" };
    // A deletion that is being planned or waits for an approval has no step under way.
    let work = [
        (snapshot.steps.live(), "step", "under way"),
        (of(DeletionState::Planning), "deletion", "being planned"),
        (to_approve, "deletion", "waiting for an approval"),
    ];
    let work = work.into_iter().filter(|(n, ..)| *n > 0);
    let work = work.map(|(n, what, how)| format!("{} {} {how}", count(n, what), are(n)));
    let work = joined(work, ", ");
    match work.is_empty() {
        true => "The engine runs in this console, and not all deletions have ended.".to_owned(),
        false => format!("The engine runs in this console: {work}."),
    }
}

/// Says which commands were confirmed and would not be sent.
fn unsent_words(state: &State) -> String {
    let unsent = count(state.unsent(), "command");
    let what = joined(state.bulks.iter().map(|bulk| &bulk.what), "; ");
    format!("{unsent} not sent yet: {what}.")
}
