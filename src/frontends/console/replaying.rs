//! Moves a replay to another time, and describes the latest events there.

use crate::control::{Command, ControlError, Moment, Receipt, query};
use crate::domain::model::Event as LedgerEvent;
use crate::domain::moment;

use super::Replayed;
use super::keys::Action;
use super::panes::kit::Arrived;
use super::replay_cursor::UnderWay;
use super::state::State;

/// Number of jumps from the first time of a replay to the last.
const JUMPS: i32 = 20;

/// Performs an action that moves the replay; returns false for any other action.
pub(super) fn act(state: &mut State, action: Action) -> bool {
    let (Some(replay), Some(at)) = (state.options.replay.clone(), state.shown_at()) else {
        return false;
    };
    let jump = (replay.last - replay.first) / JUMPS;
    let aim = state.replay_cursor.aim(at);
    let (to, is_back) = match action {
        Action::EventBack => (Moment::By(-1), true),
        Action::EventOn => (Moment::By(1), false),
        Action::JumpBack => (Moment::At((aim - jump).max(replay.first)), true),
        Action::JumpOn => (Moment::At((aim + jump).min(replay.last)), false),
        Action::Earliest => (Moment::At(replay.first), true),
        Action::Latest => (Moment::At(replay.last), false),
        _ => return false,
    };
    match (is_back, state.replay_cursor.under_way.is_some()) {
        (true, false) if at <= replay.first => state.hint("this is the first event"),
        (false, false) if at >= replay.last => state.hint("this is the end of the replay"),
        _ => go(state, to),
    }
    true
}

/// Moves the replay to the time that was typed after `:at`.
pub(super) fn typed(state: &mut State, text: &str) {
    let (Some(replay), Some(at)) = (state.options.replay.clone(), state.shown_at()) else {
        return;
    };
    let to = match moment::parse(text, at) {
        Ok(to) => to,
        Err(why) => return state.warn(why),
    };
    let Replayed { first, last, .. } = replay;
    let (end, words) = match to < first {
        true => (first, "before the first event"),
        false => (last, "after the end"),
    };
    if !(first..=last).contains(&to) {
        let end = end.format("%F %T");
        state.warn(format!("that time is {words}; the replay goes to {end}"));
    }
    go(state, Moment::At(to.clamp(first, last)));
}

fn go(state: &mut State, to: Moment) {
    let replay_cursor = &mut state.replay_cursor;
    if replay_cursor.under_way.is_some() {
        replay_cursor.next = Some(match (replay_cursor.next, to) {
            (Some(Moment::By(before)), Moment::By(more)) => Moment::By(before + more),
            // Moves by events are dropped: they are relative to a time that the person does not see yet.
            (Some(Moment::At(at)), Moment::By(_)) => Moment::At(at),
            (_, to) => to,
        });
        return;
    }
    let ticket = state.outbox.submit(Command::Seek { to }, "");
    state.replay_cursor.under_way = Some(UnderWay {
        ticket,
        to,
        is_answered: false,
        is_shown: false,
    });
}

/// Handles the receipt of a move; returns false if the ticket belongs to another command.
pub(super) fn received(
    state: &mut State,
    ticket: u64,
    receipt: &Result<Receipt, ControlError>,
) -> bool {
    let under_way = state.replay_cursor.under_way.as_mut();
    let Some(under_way) = under_way.filter(|under_way| under_way.ticket == ticket) else {
        return false;
    };
    under_way.is_answered = true;
    if let Err(error) = receipt {
        (state.replay_cursor.under_way, state.replay_cursor.next) = (None, None);
        state.fail(format!("the time could not be shown: {error}"));
    }
    arrive(state);
    true
}

/// Queries the rows on the screen again, because the replay shows another time.
pub(super) fn shown(state: &mut State) {
    if let Some(under_way) = &mut state.replay_cursor.under_way {
        under_way.is_shown = true;
    }
    state.ask_what_happened();
    state.with_top(|pane, context| pane.open(context));
    arrive(state);
}

fn arrive(state: &mut State) {
    let replay_cursor = &mut state.replay_cursor;
    let has_arrived = |under_way: &UnderWay| under_way.is_answered && under_way.is_shown;
    if replay_cursor.under_way.as_ref().is_some_and(has_arrived) {
        replay_cursor.under_way = None;
        if let Some(next) = replay_cursor.next.take() {
            go(state, next);
        }
    }
}

/// Takes the answer to the query for the latest events; returns false for any other answer.
pub(super) fn answered(state: &mut State, arrived: &mut Arrived) -> bool {
    let Some(answer) = arrived.take::<query::Timeline>(&mut state.replay_cursor.asked) else {
        return false;
    };
    state.replay_cursor.happened = answer.map(|rows| words(&rows)).unwrap_or_default();
    true
}

/// Describes the first event of the latest moment, and how many others share that moment.
fn words(events: &[LedgerEvent]) -> String {
    let Some(last) = events.last() else {
        return String::new();
    };
    let mut moment = events.iter().filter(|event| event.at == last.at);
    let first = moment.next().unwrap_or(last);
    let more = match moment.count() {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    };
    format!("{} {}{more}", first.at.format("%T%.3f"), first.message)
}
