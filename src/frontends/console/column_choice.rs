//! Which columns a list shows. A person chooses them in `:columns`, or writes their names after it; the choice is kept
//! by the word of the pane. Without a choice a list shows the columns for which the screen is wide enough.

use super::command::DEFAULT;
use super::event::Effect;
use super::look::Tone;
use super::panes::kit::ColumnOffer;
use super::panes::{Route, open};
use super::state::State;
use crate::domain::text::did_you_mean;
use crate::system::config::{Choice, ChoiceTable};

/// Shows the columns of the pane on top to choose from, or takes their names, between blanks or commas.
pub(super) fn entered(state: &mut State, names: &[&str]) {
    let Some((word, offers)) = offered(state) else {
        let told = "the columns of this pane are fixed: the width of the screen decides";
        return state.say(Tone::Warn, told);
    };
    let names = names.iter().flat_map(|names| names.split(','));
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let known = || offers.iter().map(|it| it.name.as_str());
    match names.as_slice() {
        [] => state.push(open(Route::Columns(word, offers))),
        [DEFAULT] => choose(state, &word, &[]),
        names => match names.iter().find(|name| !known().any(|it| it == **name)) {
            Some(name) => {
                let near = did_you_mean(name, known().chain([DEFAULT]));
                let hint = match near.is_empty() {
                    true => format!("; there is {}", known().collect::<Vec<_>>().join(", ")),
                    false => near,
                };
                state.say(Tone::Warn, format!("there is no column \"{name}\"{hint}"));
            }
            None => {
                let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
                choose(state, &word, &names);
            }
        },
    }
}

/// The word of the pane on top, and its columns; none if they cannot be chosen.
fn offered(state: &State) -> Option<(String, Vec<ColumnOffer>)> {
    let pane = state.top()?;
    let word = pane.word()?.to_owned();
    let look = state.look();
    let names = pane.columns();
    let chosen = &pane.list().columns;
    let is_chosen = names.iter().any(|name| chosen.contains(name));
    // Without a choice all columns are there, and the screen is too narrow for some.
    let fitting = pane.shown(0..0, &look).columns;
    let fitting = fitting.iter().map(|it| it.from_width <= look.width);
    let fitting: Vec<bool> = fitting.collect();
    let offers = names.into_iter().enumerate().map(|(at, name)| ColumnOffer {
        is_shown: match is_chosen {
            true => chosen.contains(&name),
            false => fitting.get(at).copied().unwrap_or(false),
        },
        name,
    });
    let offers: Vec<ColumnOffer> = offers.collect();
    (!offers.is_empty()).then_some((word, offers))
}

/// Shows these columns in the pane of this word from now on, or with no names as many as the screen has room for; and
/// saves the choice.
fn choose(state: &mut State, word: &str, names: &[String]) {
    let value = Some(names.join(" ")).filter(|names| !names.is_empty());
    match value.clone() {
        Some(names) => _ = state.options.columns.insert(word.to_owned(), names),
        None => _ = state.options.columns.remove(word),
    }
    state.show_chosen_columns();
    let Some(file) = state.options.settings_file.clone() else {
        let told = format!(
            "{}; start with --config FILE to keep it",
            words(state, word)
        );
        return state.say(Tone::Dim, told);
    };
    let choice = Choice {
        table: ChoiceTable::Columns,
        name: word.to_owned(),
        value,
    };
    state.outbox.push(Effect::Save { file, choice });
}

/// `:port shows name, status`
fn words(state: &State, word: &str) -> String {
    match state.options.columns.get(word) {
        Some(names) => format!(":{word} shows {}", names.replace(' ', ", ")),
        None => format!(":{word} shows the columns that fit the screen"),
    }
}

/// Tells whether a choice was saved. If not, it counts until the console ends.
pub(super) fn saved(state: &mut State, word: &str, result: Result<(), String>) {
    match result {
        Ok(()) => state.say(Tone::Good, format!("saved: {}", words(state, word))),
        Err(why) => {
            let told = format!("the columns of :{word} could not be saved: {why}");
            state.say(Tone::Bad, told);
        }
    }
}
