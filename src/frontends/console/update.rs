//! Changes the state for each event: [`update`] has no side effects, but returns the effects to perform.

use std::sync::Arc;

use termina::event::{KeyCode, KeyEvent, KeyEventKind, Modifiers};
use tui_input::Input;

use crate::control::{ControlError, Page, Receipt, Request as _, query};
use crate::domain::filter::SearchQuery;
use crate::domain::model::Event as LedgerEvent;

use super::bulk::BulkCommands;
use super::event::{Effect, Event};
use super::keys::{Action, Scope, key_name};
use super::panes::kit::Arrived;
use super::prompt::{self, Asked, CommandWords, Prompt};
use super::render_context::Tone;
use super::state::State;
use super::views::{set_filter, show_fitting};
use super::{alert, column_choice, command, layout, question, replaying, reporting, views};
use crate::present::count;
use crate::system::config::{Alert, ChoiceTable};

/// Number of rows that one notch of the wheel moves.
const WHEEL_ROWS: usize = 3;

/// Handles one event, and returns the effects that the loop performs.
pub fn update(state: &mut State, event: Event) -> Vec<Effect> {
    state.dirty = true;
    handle(state, event);
    if let Some(line) = state.entering.take() {
        views::entered(state, &line);
    }
    state.drop_outdated_message();
    state.fit_cursor();
    state.outbox.take()
}

/// Turns a line feed into enter, which arrives as a line feed if it was typed before the terminal was in raw mode.
fn enter_typed_ahead(pressed: KeyEvent) -> KeyEvent {
    match (pressed.code, pressed.modifiers) {
        (KeyCode::Char('j'), Modifiers::CONTROL) => KeyCode::Enter.into(),
        _ => pressed,
    }
}

fn handle(state: &mut State, event: Event) {
    match event {
        Event::Key(pressed) => {
            // Releases of keys are ignored, and so are keys before a guarded screen is painted.
            if pressed.kind != KeyEventKind::Release && !state.guarded {
                key(state, enter_typed_ahead(pressed));
            }
        }
        Event::Row(row) => go_to_row(state, row),
        Event::Wheel { down } => wheel(state, down),
        Event::Click(line) => click(state, line),
        Event::Paste(_) if state.guarded => {}
        Event::Paste(text) => paste(state, &text),
        Event::Resize(columns, rows) => {
            state.size = (columns, rows);
            // A screen that shrinks and grows back at once has the same size, but has lost its edges.
            state.outbox.push(Effect::Repaint);
        }
        Event::Snapshot(snapshot, now) => {
            state.now = now;
            let moved = state.snapshot.last_event != snapshot.last_event
                || state.snapshot.steps != snapshot.steps
                || state.snapshot.deletions != snapshot.deletions;
            let alert = alert::words(&state.snapshot, &snapshot);
            state.snapshot = snapshot;
            if state.replays() {
                return replaying::shown(state);
            }
            if let Some(words) = alert.filter(|_| state.options.alert != Alert::Off) {
                state.outbox.push(Effect::Alert(words));
            }
            state.sample_rate();
            // If the work that the question is about has ended, there is nothing left to ask.
            if matches!(state.prompt, Some(Prompt::Question(Asked::Quit))) {
                state.quit();
            }
            if !state.scope.is_empty() {
                // The engine may serve other sites than before.
                views::apply(state);
            }
            state.with_top(|pane, context| pane.wake(moved, context));
        }
        Event::EngineGone => {
            state.engine_gone = true;
            state.fail("the engine has ended; the screen shows its last published state");
        }
        Event::Answer(ticket, answer, now) => {
            state.now = now;
            answered(state, ticket, answer);
        }
        Event::Receipt(ticket, receipt, now) => {
            state.now = now;
            received(state, ticket, &receipt);
        }
        Event::Followed(ticket, events) if state.following == Some(ticket) => {
            followed(state, events);
        }
        Event::Followed(..) => {}
        Event::Saved(choice, result) => match choice.table {
            ChoiceTable::Views => views::saved(state, choice, result),
            ChoiceTable::Columns => column_choice::saved(state, &choice.name, result),
        },
        Event::ReportWritten(report, result) => reporting::written(state, report, result),
        Event::Tick(now) => {
            state.now = now;
            state.ticks = state.ticks.wrapping_add(1);
            state.with_top(|pane, context| pane.wake(false, context));
        }
        Event::GuardPainted => state.guarded = false,
    }
}

fn key(state: &mut State, pressed: KeyEvent) {
    state.message = None;
    // On a screen that is too small nobody can see what a key would do.
    if layout::is_too_small(state.size) && question::open(state).is_none() {
        state.prompt = None;
        let action = state.options.keys.action(Scope::Everywhere, false, pressed);
        if action == Some(Action::Quit) {
            state.quit();
        }
        return;
    }
    match state.prompt.take() {
        Some(prompt) => prompt_key(state, prompt, pressed),
        None => pane_key(state, pressed),
    }
}

fn pane_key(state: &mut State, pressed: KeyEvent) {
    let Some(pane) = state.top() else { return };
    let (keys, replays) = (&state.options.keys, state.replays());
    let Some(action) = keys.action(pane.scope(), replays, pressed) else {
        let key = key_name((pressed.code, pressed.modifiers));
        let help = keys.key(Action::Help);
        let places = keys.elsewhere(pressed).unwrap_or_default();
        let nothing = format!("{key} does nothing here{places}; {help} shows the keys");
        return state.say_once(Tone::Dim, nothing);
    };
    if replays && action.changes_a_cloud() {
        return state.warn("this is a replay: nothing is changed");
    }
    let (is_modal, filter) = (pane.is_modal(), pane.list().filter.text().to_owned());
    if action != Action::Copy {
        state.with_top(|pane, _| pane.list_mut().copied = None);
    }
    match action {
        Action::Quit => state.quit(),
        Action::Suspend => state.outbox.push(Effect::Suspend),
        Action::Repaint => state.outbox.push(Effect::Repaint),
        Action::Back => back(state),
        Action::Previous => state.back(),
        _ if is_modal => {}
        Action::Next => state.next(),
        Action::CommandLine => {
            state.ask_kinds();
            state.prompt = Some(Prompt::Command(Input::default(), 0));
        }
        Action::Filter => state.prompt = Some(Prompt::Filter(filter.clone().into(), filter)),
        Action::ClearScope => views::clear(state),
        Action::Help => state.go("help"),
        Action::NotADelete => {
            let pressed = key_name((pressed.code, pressed.modifiers));
            let plans = state.options.keys.key(Action::PlanDeletion);
            state.hint(format!(
                "{pressed} deletes nothing here; {plans} on a row plans a deletion and asks"
            ));
        }
        action if replaying::act(state, action) => {}
        action => move_or_act(state, action),
    }
}

fn move_or_act(state: &mut State, action: Action) {
    let page = state.table_rows();
    state.with_top(|pane, context| {
        let len = pane.len();
        if pane.list_mut().go(action, len, page) {
            // At the last loaded row, the pane queries more rows.
            pane.wake(false, context);
        } else {
            pane.act(action, context);
        }
    });
}

fn go_to_row(state: &mut State, row: usize) {
    state.message = None;
    state.with_top(|pane, context| {
        pane.list_mut().cursor = row.min(pane.len().saturating_sub(1));
        pane.wake(false, context);
    });
}

/// Whether the mouse has an effect: not while a prompt is open, before a guarded screen is painted, or on a screen that
/// is too small.
fn takes_mouse(state: &State) -> bool {
    state.prompt.is_none() && !state.guarded && !layout::is_too_small(state.size)
}

fn wheel(state: &mut State, down: bool) {
    if takes_mouse(state) {
        let action = if down { Action::Down } else { Action::Up };
        for _ in 0..WHEEL_ROWS {
            move_or_act(state, action);
        }
    }
}

/// Moves the cursor to the row, or opens the row if the cursor is on it already. No click sends a command.
fn click(state: &mut State, line: u16) {
    let row = state.row_at(line).filter(|_| takes_mouse(state));
    let (Some(row), Some(pane)) = (row, state.top()) else {
        return;
    };
    if pane.list().cursor != row {
        go_to_row(state, row);
    } else if !pane.is_modal() {
        state.message = None;
        move_or_act(state, Action::Open);
    }
}

/// Clears the filter if there is one, else leaves the pane.
fn back(state: &mut State) {
    match state.top().is_some_and(|p| !p.list().filter.is_empty()) {
        true => set_filter(state, String::new()),
        false => state.back(),
    }
}

/// Filters with each letter; over a slow line only with enter.
fn filter_typed(state: &mut State, input: &Input) {
    if !state.options.low_bandwidth {
        set_filter(state, input.value().to_owned());
    }
}

/// Takes the names of a cloud's projects, and applies filters by project again.
fn projects_named(state: &mut State, answer: Result<Page, ControlError>) {
    match answer.and_then(query::Resources::answer) {
        Ok(listings) => {
            for listing in listings {
                let site = listing.site;
                if let Some(error) = listing.error {
                    state.warn(format!(
                        "project= takes only ids at {site}, because its projects could not be listed: {error}"
                    ));
                }
                let named = listing.rows.into_iter().map(|row| (row.key.id, row.name));
                Arc::make_mut(&mut state.projects).extend(named);
            }
        }
        Err(error) => {
            let why = "project= takes only ids, because the projects could not be listed";
            state.warn(format!("{why}: {error}"));
        }
    }
    if state.projects_tickets.is_empty() && !state.projects.is_empty() {
        views::check_project(state);
    }
    let (projects, now) = (state.projects.clone(), state.ages_as_of());
    state.with_any(|pane, context| {
        if pane.list().filter.asks_for_projects() {
            let (text, columns) = (pane.list().filter.text(), pane.columns());
            let filter = SearchQuery::parse_with_names(text, &projects, &columns);
            show_fitting(pane, filter, now, context);
        }
        false
    });
}

fn prompt_key(state: &mut State, prompt: Prompt, pressed: KeyEvent) {
    let control = pressed.modifiers.contains(Modifiers::CONTROL);
    if pressed.code == KeyCode::Escape || (control && pressed.code == KeyCode::Char('c')) {
        match prompt {
            Prompt::Filter(_, before) => set_filter(state, before),
            Prompt::Confirm(_) => state.hint("nothing was sent"),
            Prompt::Report(..) | Prompt::Question(Asked::Replace(_)) => {
                state.hint("no report was written");
            }
            Prompt::Command(..) | Prompt::Question(Asked::Quit | Asked::Unsent) => {}
        }
        return;
    }
    let is_enter = pressed.code == KeyCode::Enter;
    if pressed.code != KeyCode::Tab {
        state.completing = None;
    }
    match prompt {
        Prompt::Command(input, _) if is_enter => command_entered(state, input.value().trim()),
        Prompt::Command(input, recalled) => edit_command(state, input, recalled, pressed),
        Prompt::Filter(input, _) if is_enter => {
            set_filter(state, input.value().to_owned());
            let filter = state.top().map(|pane| &pane.list().filter);
            if let Some(complaint) = filter.and_then(SearchQuery::complaint) {
                state.warn(complaint);
            }
        }
        Prompt::Filter(input, before) => edit_filter(state, input, before, pressed),
        Prompt::Confirm(confirm) if is_enter => confirm_entered(state, confirm),
        Prompt::Confirm(mut confirm) => {
            if prompt::edit(&mut confirm.input, pressed) {
                confirm.wrong = false;
            }
            state.prompt = Some(Prompt::Confirm(confirm));
        }
        Prompt::Report(input, deletion_id) if is_enter => {
            reporting::typed(state, deletion_id, input.value());
        }
        Prompt::Report(mut input, deletion_id) => {
            prompt::edit(&mut input, pressed);
            state.prompt = Some(Prompt::Report(input, deletion_id));
        }
        Prompt::Question(asked) => question::answer(state, asked, pressed.code),
    }
}

fn edit_command(state: &mut State, mut input: Input, mut recalled: usize, pressed: KeyEvent) {
    let at_end = input.cursor() == input.value().chars().count();
    let completes = pressed.code == KeyCode::Tab || (pressed.code == KeyCode::Right && at_end);
    if completes {
        let find = |state: &State, typed: &str| command::completions(typed, &state.known());
        input = complete(state, input, find);
    } else if matches!(pressed.code, KeyCode::Up | KeyCode::Down) {
        recalled = match pressed.code {
            KeyCode::Up => (recalled + 1).min(state.words.len()),
            _ => recalled.saturating_sub(1),
        };
        let newer = recalled.checked_sub(1);
        let line = newer.and_then(|newer| state.words.iter().nth_back(newer));
        input = Input::new(line.cloned().unwrap_or_default());
    } else if pressed.code == KeyCode::Backspace && input.value().is_empty() {
        return;
    } else {
        prompt::edit(&mut input, pressed);
    }
    if command::names_project(input.value()) {
        state.list_projects();
    }
    state.prompt = Some(Prompt::Command(input, recalled));
}

fn edit_filter(state: &mut State, mut input: Input, before: String, pressed: KeyEvent) {
    if matches!(pressed.code, KeyCode::Up | KeyCode::Down) {
        pane_key(state, pressed);
    } else if pressed.code == KeyCode::Tab {
        input = complete(state, input, |state, typed| {
            let columns = state.top().map(|pane| pane.columns());
            command::filter_completions(typed, &columns.unwrap_or_default())
        });
        filter_typed(state, &input);
    } else {
        prompt::edit(&mut input, pressed);
        filter_typed(state, &input);
    }
    state.prompt = Some(Prompt::Filter(input, before));
}

/// Submits the confirmed commands, or keeps the question open if the typed text is not accepted or a reason is still to
/// be typed.
fn confirm_entered(state: &mut State, mut confirm: Box<prompt::Confirm>) {
    if !confirm.enter() {
        state.prompt = Some(Prompt::Confirm(confirm));
        return;
    }
    if confirm.is_of_marked {
        state.with_top(|pane, _| pane.list_mut().marks.clear());
        state.bulks.push(BulkCommands::of(*confirm));
        return state.send_bulks();
    }
    let Some(command) = confirm.commands.first() else {
        return;
    };
    let ticket = state.outbox.submit(command.clone(), confirm.reason());
    let taken = state.with_top(|pane, _| pane.confirmed(ticket));
    if taken != Some(true) {
        state.submitted.insert(ticket, confirm.words);
    }
}

/// Completes the typed text; the same key again shows the next completion.
fn complete(state: &mut State, input: Input, find: impl Fn(&State, &str) -> Vec<String>) -> Input {
    let (typed, at) = match state.completing.take() {
        Some((typed, at)) => (typed, at + 1),
        None => (input.value().to_owned(), 0),
    };
    let found = find(state, &typed);
    let at = at.checked_rem(found.len()).unwrap_or(0);
    let Some(line) = found.get(at) else {
        return input;
    };
    state.completing = Some((typed, at));
    Input::new(line.clone())
}

fn command_entered(state: &mut State, word: &str) {
    if word.is_empty() {
        return;
    }
    state.remember(word);
    if state.kinds.is_empty() && state.kinds_ticket.is_some() {
        // The kinds have not arrived yet; the line is handled when they do.
        state.start = Some(word.to_owned());
    } else {
        go(state, word);
    }
}

/// Pastes only into a line that is being typed: pasted text is never read as keys, and confirms nothing by itself.
fn paste(state: &mut State, text: &str) {
    match &mut state.prompt {
        Some(Prompt::Command(input, _) | Prompt::Report(input, _)) => prompt::paste(input, text),
        Some(Prompt::Filter(input, _)) => {
            prompt::paste(input, text);
            let input = input.clone();
            filter_typed(state, &input);
        }
        Some(Prompt::Confirm(confirm)) => {
            prompt::paste(&mut confirm.input, text);
            confirm.wrong = false;
        }
        Some(Prompt::Question(_)) => {}
        None => {
            let key = |action| state.options.keys.key(action);
            let (filter, command_line) = (key(Action::Filter), key(Action::CommandLine));
            let hint = format!(
                "pasted text does nothing here; {filter} filters, {command_line} opens a pane or a kind"
            );
            state.hint(hint);
        }
    }
}

fn answered(state: &mut State, ticket: u64, answer: Result<Page, ControlError>) {
    if state.kinds_ticket == Some(ticket) {
        state.kinds_ticket = None;
        match answer.and_then(query::Kinds::answer) {
            Ok(rows) => state.kinds = rows,
            Err(error) => state.fail(format!("the kinds could not be read: {error}")),
        }
        if let Some(word) = state.start.take() {
            go(state, &word);
        }
        return;
    }
    if state.projects_tickets.remove(&ticket) {
        return projects_named(state, answer);
    }
    let mut arrived = Arrived::new(ticket, answer);
    if replaying::answered(state, &mut arrived) {
        return;
    }
    state.with_any(|pane, context| pane.answer(&mut arrived, context));
    // The answer may decide whether the pane follows events.
    state.follow();
}

fn received(state: &mut State, ticket: u64, receipt: &Result<Receipt, ControlError>) {
    if replaying::received(state, ticket, receipt)
        || bulk_received(state, ticket, receipt)
        || state.with_any(|pane, context| pane.receipt(ticket, receipt, context))
    {
        return;
    }
    // The receipt of a command whose pane was dropped is reported only if it is an error.
    let Some(CommandWords { what, done }) = state.submitted.remove(&ticket) else {
        if let Err(error) = receipt {
            state.fail(error.to_string());
        }
        return;
    };
    let (tone, message) = match (receipt, done) {
        (Ok(Receipt::Done { .. }), Some(done)) => (Tone::Good, done),
        (Ok(Receipt::Done { moved: 0 }), None) => (Tone::Good, format!("{what}: done")),
        (Ok(Receipt::Done { moved }), None) => {
            (Tone::Good, format!("{what}: {}", count(*moved, "step")))
        }
        (Ok(_), _) => (Tone::Good, format!("{what}: accepted")),
        (Err(error), _) => (Tone::Bad, format!("{what}: {error}")),
    };
    state.say(tone, message);
    state.with_top(|pane, context| pane.wake(true, context));
}

/// Takes the receipt of a command that was confirmed with others, and reports the outcome once all have ended. Returns
/// false if the receipt belongs to another command.
fn bulk_received(state: &mut State, ticket: u64, receipt: &Result<Receipt, ControlError>) -> bool {
    let mut bulks = state.bulks.iter_mut();
    if !bulks.any(|bulk| bulk.receive(ticket, receipt)) {
        return false;
    }
    state.send_bulks();
    let ended = state.bulks.extract_if(.., |bulk| bulk.has_ended());
    for (tone, message) in ended.flat_map(|bulk| bulk.messages()).collect::<Vec<_>>() {
        state.say(tone, message);
        state.with_top(|pane, context| pane.wake(true, context));
    }
    if matches!(state.prompt, Some(Prompt::Question(Asked::Unsent))) && state.unsent() == 0 {
        // All commands were sent, so there is nothing left to ask.
        state.prompt = None;
        state.quit();
    }
    true
}

fn followed(state: &mut State, events: Result<Vec<LedgerEvent>, ControlError>) {
    state.following = None;
    match events {
        Ok(events) => {
            let last = events.last().map(|last| last.seq);
            state.followed = Some(last.unwrap_or_else(|| state.followed_until()));
            for pane in state.open_panes() {
                pane.followed(&events);
            }
        }
        Err(ControlError::Expired { oldest, .. }) => state.followed = Some(oldest - 1),
        Err(error) => {
            // The request is repeated only when the pane is opened again or a query is answered, so that an engine that
            // has ended is not called again and again.
            state.fail(format!(
                "events could not be read: {error}; open the pane again to read them"
            ));
            let now = state.now;
            for pane in state.open_panes() {
                pane.lost(&error.to_string(), now);
            }
            return;
        }
    }
    state.follow();
}

/// Moves a replay to the time that follows `at`, or handles any other line after `:`.
fn go(state: &mut State, word: &str) {
    let time = word.strip_prefix("at").filter(|_| state.replays());
    match time.filter(|time| time.is_empty() || time.starts_with(' ')) {
        Some(time) => replaying::typed(state, time),
        None => views::entered(state, word),
    }
}
