//! Handles `:columns`. Alone, it opens a list in which a person chooses the columns that a list or a tree shows; with
//! names after it, it shows those columns. The choice is kept by the word of the pane; all trees have one choice.
//! Without a choice, a pane shows the columns for which the screen is wide enough.

use super::command::DEFAULT;
use super::event::Effect;
use super::panes::kit::{Choosable, ColumnOffer, columns_owner};
use super::panes::{Route, open};
use super::render_context::Tone;
use super::state::State;
use crate::domain::text::did_you_mean;
use crate::present::joined;
use crate::system::config::{Choice, ChoiceTable};

/// Opens the list of the columns of the pane on top, or shows the columns whose names were typed, separated by spaces
/// or commas. [`DEFAULT`] drops the choice.
pub(super) fn entered(state: &mut State, names: &[&str]) {
    let Some((kept_as, offers)) = offered(state) else {
        return state.warn("the columns of this pane cannot be chosen: the width of the screen decides which are shown");
    };
    let names = names.iter().flat_map(|names| names.split(','));
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let known = || offers.iter().map(|it| it.name.as_str());
    match names.as_slice() {
        [] => state.push(open(Route::Columns(columns_owner(&kept_as), offers))),
        [DEFAULT] => choose(state, &kept_as, &[]),
        names => match names.iter().find(|name| !known().any(|it| it == **name)) {
            Some(name) => {
                let hint = match did_you_mean(name, known().chain([DEFAULT])) {
                    near if near.is_empty() => {
                        format!("; the columns are {}", joined(known(), ", "))
                    }
                    near => near,
                };
                state.warn(format!("there is no column \"{name}\"{hint}"));
            }
            None => choose(state, &kept_as, names),
        },
    }
}

/// The name under which a choice for the pane on top is kept, and its columns; `None` if they cannot be chosen.
fn offered(state: &State) -> Option<(String, Vec<ColumnOffer>)> {
    let pane = state.top()?;
    let Choosable { kept_as, names } = pane.choosable()?;
    let look = state.look();
    let chosen = &pane.list().columns;
    let is_chosen = names.iter().any(|name| chosen.contains(name));
    // Without a choice `shown` returns all columns, and the screen may be too narrow for some.
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
    let offers = offers.collect();
    Some((kept_as, offers))
}

/// Shows these columns from now on, or without names as many as fit on the screen, and saves the choice if there is a
/// settings file.
fn choose(state: &mut State, kept_as: &str, names: &[&str]) {
    let value = Some(names.join(" ")).filter(|names| !names.is_empty());
    match value.clone() {
        Some(names) => _ = state.options.columns.insert(kept_as.to_owned(), names),
        None => _ = state.options.columns.remove(kept_as),
    }
    state.show_chosen_columns();
    let Some(file) = state.options.settings_file.clone() else {
        let shown = words(state, kept_as);
        return state.hint(format!(
            "{shown}; start with --config FILE to keep this choice"
        ));
    };
    let choice = Choice {
        table: ChoiceTable::Columns,
        name: kept_as.to_owned(),
        value,
    };
    state.outbox.push(Effect::Save(file, choice));
}

/// Says which columns a pane shows, such as `:port shows name, status`.
fn words(state: &State, kept_as: &str) -> String {
    let owner = columns_owner(kept_as);
    match state.options.columns.get(kept_as) {
        Some(names) => format!("{owner} shows {}", names.replace(' ', ", ")),
        None => format!("{owner} shows the columns that fit the screen"),
    }
}

/// Reports whether a choice was saved. A choice that was not saved applies until the console ends.
pub(super) fn saved(state: &mut State, kept_as: &str, result: Result<(), String>) {
    match result {
        Ok(()) => state.say(Tone::Good, format!("saved: {}", words(state, kept_as))),
        Err(why) => {
            let owner = columns_owner(kept_as);
            state.fail(format!("the columns of {owner} could not be saved: {why}"));
        }
    }
}
