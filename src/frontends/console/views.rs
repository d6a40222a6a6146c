//! Handles a line that was typed after `:`: opens its pane, sets the scope or the filter, opens or saves a view, or
//! chooses columns.

use chrono::{DateTime, Utc};

use super::column_choice;
use super::command::{self, COLUMNS, Destination};
use super::event::Effect;
use super::panes::kit::{Context, Pane};
use super::render_context::Tone;
use super::scope::{EstateScope, Line};
use super::state::State;
use crate::control::SiteStatus;
use crate::domain::filter::SearchQuery;
use crate::domain::text::did_you_mean;
use crate::present::joined;
use crate::system::config::{Choice, ChoiceTable};
use crate::system::private;

/// Opens the pane that the line names, with its scope and filter; or sets the scope, opens or saves a view, or
/// chooses columns.
pub(super) fn entered(state: &mut State, text: &str) {
    let line = Line::parse(text);
    let word = line.word.to_lowercase();
    match (word.as_str(), line.rest.as_slice()) {
        ("cloud", [name]) => narrow(state, |scope, sites| scope.set_cloud(name, sites)),
        ("region", [name]) => narrow(state, |scope, sites| scope.set_region(name, sites)),
        ("project", [name]) => narrow(state, |scope, _| {
            scope.project = Some((*name).to_owned());
            Ok(())
        }),
        ("cloud" | "region", _) => {
            state.warn(format!("write the name of a {word} after :{word}"));
        }
        ("view", ["save"]) => state.warn("write a name after :view save"),
        ("view", ["save", name]) => save(state, name),
        ("view", ["save", ..]) => state.warn("write one name after :view save, without spaces"),
        ("view", []) => state.hint(saved_words(state)),
        ("view", [name]) => open_saved(state, name),
        ("view", _) => {
            let hint = "write one name after :view, without spaces";
            state.warn(format!("{hint}; {}", saved_words(state)));
        }
        (COLUMNS, names) => column_choice::entered(state, names),
        _ => open(state, &line, state.scope.clone()),
    }
}

/// Opens a saved view. Only its own scope applies, not the present scope of the console.
pub(super) fn open_view(state: &mut State, text: &str) {
    open(state, &Line::parse(text), EstateScope::default());
}

fn open(state: &mut State, line: &Line<'_>, mut scope: EstateScope) {
    let word = [&[line.word], line.rest.as_slice()].concat().join(" ");
    if !word.is_empty()
        && let Destination::Unknown(why) = command::find_destination(&word, &state.kinds)
    {
        state.warn(why);
        return state.ask_kinds();
    }
    if let Some(site) = line.site
        && let Err(why) = scope.set_site(site, &state.snapshot.sites)
    {
        return state.warn(why);
    }
    if let Some(project) = line.project {
        scope.project = Some(project.to_owned());
    }
    if scope != state.scope {
        set_scope(state, scope);
    }
    if !word.is_empty() {
        state.go(&word);
    }
    if let Some(filter) = line.filter {
        set_filter(state, filter.to_owned());
    }
}

fn narrow(
    state: &mut State,
    change: impl FnOnce(&mut EstateScope, &[SiteStatus]) -> Result<(), String>,
) {
    let mut scope = state.scope.clone();
    match change(&mut scope, &state.snapshot.sites) {
        Ok(()) => set_scope(state, scope),
        Err(why) => state.warn(why),
    }
}

fn set_scope(state: &mut State, scope: EstateScope) {
    state.scope = scope;
    state.ask_projects();
    apply(state);
    if state.projects_tickets.is_empty() && !state.projects.is_empty() {
        check_project(state);
    }
}

/// Drops the scope's project if no project has this name or id, and says which one may be meant. Called when the
/// projects are known.
pub(super) fn check_project(state: &mut State) {
    if let Some(why) = state.scope.unknown_project(&state.projects) {
        state.scope.project = None;
        state.warn(why);
    }
    apply(state);
}

pub(super) fn set_filter(state: &mut State, filter: String) {
    let projects = state.projects.clone();
    let now = state.ages_as_of();
    state.with_top(|pane, context| {
        if pane.list().filter.text() != filter {
            let query = SearchQuery::parse_with_names(&filter, &projects, &pane.columns());
            show_fitting(pane, query, now, context);
        }
    });
    state.ask_projects();
}

pub(super) fn show_fitting(
    pane: &mut dyn Pane,
    mut filter: SearchQuery,
    now: DateTime<Utc>,
    context: &mut Context,
) {
    filter.set_now(now);
    pane.list_mut().filter = filter;
    pane.filter_changed();
    pane.wake(false, context);
}

/// Clears the scope, so that all clouds, regions and projects are shown.
pub(super) fn clear(state: &mut State) {
    let message = match state.scope.is_empty() {
        true => "all clouds, regions and projects are shown already",
        false => "all clouds, regions and projects",
    };
    state.scope = EstateScope::default();
    apply(state);
    state.hint(message);
}

/// Applies the scope to the pane on top; the other panes get it when they are on top again.
pub(super) fn apply(state: &mut State) {
    let applied = state.scope.applied(&state.snapshot.sites, &state.projects);
    state.applied_scope = applied.clone();
    state.with_top(|pane, context| {
        pane.narrow(&applied);
        pane.wake(false, context);
    });
}

fn saved_words(state: &State) -> String {
    match joined(state.options.views.keys(), ", ") {
        names if names.is_empty() => {
            "no view is saved; :view save NAME saves the current one".to_owned()
        }
        names => format!("saved views: {names}"),
    }
}

fn open_saved(state: &mut State, name: &str) {
    match state.options.views.get(name).cloned() {
        Some(view) => open_view(state, &view),
        None => {
            let names = state.options.views.keys().map(String::as_str);
            let hint = match did_you_mean(name, names) {
                near if near.is_empty() => format!("; {}", saved_words(state)),
                near => near,
            };
            state.warn(format!("there is no view \"{name}\"{hint}"));
        }
    }
}

fn save(state: &mut State, name: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name == "save" {
        return state.warn("\"save\" is reserved; write another name after :view save");
    }
    if !name.chars().all(is_plain) {
        return state.warn("a view's name has letters, digits, - and _ only");
    }
    let Some(file) = state.options.settings_file.clone() else {
        return state.warn("views are saved in a settings file: start with --config FILE");
    };
    let choice = Choice {
        table: ChoiceTable::Views,
        name: name.to_owned(),
        value: Some(state.view()),
    };
    state.outbox.push(Effect::Save(file, choice));
}

/// Reports whether a view was saved. An earlier view of the same name stays until then.
pub(super) fn saved(state: &mut State, choice: Choice, result: Result<(), String>) {
    let (name, view) = (choice.name, choice.value.unwrap_or_default());
    match result {
        Ok(()) => {
            state.say(Tone::Good, format!("saved as :view {name}: {view}"));
            state.options.views.insert(name, view);
        }
        Err(why) => state.fail(format!("the view {name} could not be saved: {why}")),
    }
}

/// Keeps the view for the next start. Called once, when the console ends.
pub(super) fn keep_last(state: &State) {
    let Some(file) = &state.options.last_view else {
        return;
    };
    if let Err(error) = private::replace(file, state.view().as_bytes()) {
        tracing::warn!(%error, "the last view could not be kept");
    }
}
