//! The header: the engine, the counts of steps and deletions, and the sites; in a replay, its time and the counts.

use chrono::{DateTime, TimeDelta, Utc};
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr as _;

use crate::control::{SiteState, SiteStatus};
use crate::domain::model::{DeletionState, StepState};

use super::super::about::{deletions_in, site_state, urgency};
use super::super::render_context::{Cell, RenderContext, Tone};
use super::super::state::State;
use super::super::{EngineMode, Replayed};
use super::Canvas;
use crate::present::{count, joined, thousands};
use crate::system::config::Accent;

pub(super) fn draw(state: &State, canvas: &mut Canvas, area: Rect) {
    let look = canvas.look;
    if let (Some(replay), Some(at)) = (&state.options.replay, state.shown_at()) {
        return draw_replay(state, canvas, area, replay, at);
    }
    let mut y = area.y;
    if area.height > 1 {
        engine(state, canvas, y);
        y += 1;
    }
    line_from(canvas, 1, y, counts(state, &look));
    if area.height > 2 {
        line_from(canvas, 1, y + 1, sites(state, &look));
    }
}

/// Draws the header of a replay. It first says in reverse video that this is a replay, and its time, so that nobody
/// takes it for the present; then it shows the position of that time in the replay.
fn draw_replay(
    state: &State,
    canvas: &mut Canvas,
    area: Rect,
    replay: &Replayed,
    at: DateTime<Utc>,
) {
    let look = canvas.look;
    let bar = |width| Cell::plain(bar(replay, at, &look, width));
    let mut facts = counts(state, &look);
    let (time, width) = match area.height {
        1 => (at.format(" REPLAY %T "), 8),
        _ => (at.format(" REPLAY %F %T%.3f UTC "), 20),
    };
    if area.height < 3 {
        facts.insert(0, bar(width));
    }
    let style = look.style(Tone::Warn).add_modifier(Modifier::REVERSED);
    let x = canvas.put_styled(1, area.y, area.width - 1, &time.to_string(), style) + 1;
    if area.height == 1 {
        return line_from(canvas, x, area.y, facts);
    }
    let message = format!("nothing is changed{}ledger {}", look.dot(), replay.ledger);
    let room = area.width.saturating_sub(x + 1);
    canvas.put(x, area.y, room, &message, Tone::Dim);
    line_from(canvas, 1, area.y + 1, facts);
    if area.height > 2 {
        let (first, last) = ends(replay);
        let room = usize::from(area.width).saturating_sub(first.len() + last.len() + 6);
        let times = vec![Cell::dim(first), bar(room), Cell::dim(last)];
        line_from(canvas, 1, area.y + 2, times);
    }
}

/// The first and the last time of a replay, with their days if these differ.
pub(super) fn ends(replay: &Replayed) -> (String, String) {
    let format = match replay.first.date_naive() == replay.last.date_naive() {
        true => "%T",
        false => "%m-%d %T",
    };
    let shown = |at: DateTime<Utc>| at.format(format).to_string();
    (shown(replay.first), shown(replay.last))
}

/// Position of a time in a replay, as `━━━━●────`.
fn bar(replay: &Replayed, at: DateTime<Utc>, look: &RenderContext, width: usize) -> String {
    let all = (replay.last - replay.first).num_milliseconds().max(1);
    let passed = (at - replay.first).num_milliseconds().clamp(0, all);
    let room = width.saturating_sub(1);
    let before = i64::try_from(room).unwrap_or(0).saturating_mul(passed) / all;
    let before = usize::try_from(before).unwrap_or(0);
    let passed = look.pick("━", "=").repeat(before);
    let left = look.pick("─", "-").repeat(room - before);
    format!("{passed}{}{left}", look.pick("●", "O"))
}

/// Draws facts side by side. Only the first fact may be cut; a later one that does not fit is left out with all after
/// it, because a part of a number would mislead.
fn line_from(canvas: &mut Canvas, mut x: u16, y: u16, facts: Vec<Cell>) {
    let look = canvas.look;
    for fact in facts {
        let room = look.width.saturating_sub(x + 1);
        if x > 1 && width(&fact, &look) > usize::from(room) {
            canvas.own(x, y, look.pick("…", "~"), Tone::Dim);
            return;
        }
        x = canvas.put(x, y, room, &fact.text, fact.tone) + 2;
    }
}

fn width(cell: &Cell, look: &RenderContext) -> usize {
    look.safe(&cell.text).width()
}

fn engine(state: &State, canvas: &mut Canvas, y: u16) {
    let look = canvas.look;
    let engine = &state.snapshot.engine;
    let mut end = canvas.put(1, y, look.width - 1, "gone", Tone::Strong) + 2;
    for (cloud, accent) in accents(state) {
        let room = look.width.saturating_sub(end + 1);
        end = canvas.put_styled(end, y, room, &format!(" {cloud} "), look.accent(accent)) + 1;
    }
    let mut right = vec![Cell::dim(state.options.actor.name.clone())];
    if engine.read_only {
        right.insert(0, Cell::new("READ-ONLY", Tone::Warn));
    }
    let wide: usize = right.iter().map(|cell| width(cell, &look) + 2).sum();
    let wide = u16::try_from(wide).unwrap_or(look.width);
    let mut x = look.width - wide.min(look.width / 2);
    let room = x.saturating_sub(end + 1);
    let words = engine_words(state, &look);
    canvas.put(end, y, room, &words.text, words.tone);
    for cell in right {
        let room = look.width.saturating_sub(x + 1);
        x = canvas.put(x, y, room, &cell.text, cell.tone) + 2;
    }
}

/// Says in which process the engine runs, and whether it works.
pub(super) fn engine_words(state: &State, look: &RenderContext) -> Cell {
    let engine = &state.snapshot.engine;
    if let Some(since) = engine.unreachable_since.filter(|_| !state.engine_gone) {
        let since = since.format("%H:%M:%S");
        return look.bad(format!(
            "engine not reachable since {since}: start gone --engine"
        ));
    }
    match (&engine.fault, state.options.engine) {
        _ if state.engine_gone => look.bad("the engine has ended: start gone again"),
        (Some(fault), _) => look.bad(format!("the engine takes no new work: {fault}")),
        (None, EngineMode::Embedded) => Cell::dim("engine in this console"),
        (None, EngineMode::Attached) => Cell::dim(format!("attached to engine {}", engine.pid)),
    }
}

/// The clouds that this engine serves and that have a colour, with their colours.
pub(super) fn accents(state: &State) -> impl Iterator<Item = (&str, Accent)> {
    let accents = state.options.accent.iter();
    let accents = accents.map(|(cloud, accent)| (cloud.as_str(), *accent));
    accents.filter(|(cloud, _)| {
        let mut sites = state.snapshot.sites.iter();
        sites.any(|status| status.site.cloud() == Some(cloud))
    })
}

/// The counts of steps and deletions: first those that need a person, then the others; and the rate. The scope
/// comes before the counts, and on a narrow screen also whether the engine is read-only.
pub(super) fn counts(state: &State, look: &RenderContext) -> Vec<Cell> {
    let snapshot = &state.snapshot;
    let steps = &snapshot.steps;
    let of = |state| deletions_in(state, snapshot);
    let to_approve = of(DeletionState::AwaitingApproval);
    let read_only = look.width < 60 && snapshot.engine.read_only && !look.replays;
    let read_only = read_only.then(|| Cell::new("READ-ONLY", Tone::Warn));
    let counts = [
        (StepState::Stuck, steps.stuck, "stuck"),
        (StepState::Stuck, of(DeletionState::Refused), "refused"),
        (StepState::Blocked, to_approve, "to approve"),
        (StepState::Blocked, steps.blocked, "blocked"),
        (StepState::Running, steps.running, "running"),
        (StepState::Verifying, steps.verifying, "verifying"),
        (StepState::Waiting, steps.waiting + steps.ready, "waiting"),
        (StepState::Gone, steps.gone, "gone"),
    ];
    let counts = counts.into_iter().filter(|(_, n, _)| *n > 0);
    let counts = counts.map(|(state, n, word)| {
        let n = thousands(n);
        look.like(state, format!("{n} {word}"))
    });
    let mut facts: Vec<Cell> = read_only.into_iter().chain(counts).collect();
    // A deletion that is being planned has no steps yet.
    if let planning @ 1.. = of(DeletionState::Planning) {
        let words = format!("{} being planned", count(planning, "deletion"));
        facts.push(Cell::new(words, look.step_glyph(StepState::Running).1));
    }
    let is_recent = |at| state.ages_as_of() - at < RATE_WINDOW;
    if snapshot.rate_per_second >= 0.05 && snapshot.at.is_none_or(is_recent) {
        let now = snapshot.rate_per_second;
        let spark = || look.spark(state.rates.iter().map(|(_, rate)| *rate));
        facts.push(Cell::dim(match state.rates.len() {
            2.. if !look.sparing => format!("{now:.1}/s {}", spark()),
            _ => format!("{now:.1}/s"),
        }));
    }
    if facts.is_empty() {
        facts.push(Cell::dim(match look.replays {
            true => "nothing was under way, nothing needed anyone",
            false => "nothing under way, nothing needs you",
        }));
    }
    let scope = &state.applied_scope.words;
    if !scope.is_empty() {
        facts.insert(0, Cell::new(format!("in {scope}"), Tone::Warn));
    }
    facts
}

/// Age of a snapshot from which its rate is not shown: nothing has changed for so long that the rate is out of date.
const RATE_WINDOW: TimeDelta = TimeDelta::seconds(60);
/// Width from which each site's concurrency limit is shown, and its latency also beside errors.
const CALLS_FROM: u16 = 100;

/// The number of sites that are reachable; then each site, those that are not reachable first.
pub(super) fn sites(state: &State, look: &RenderContext) -> Vec<Cell> {
    let sites = &state.snapshot.sites;
    if sites.is_empty() {
        let hint = "no cloud is configured; gone doctor says what to do";
        return vec![Cell::dim(hint)];
    }
    let answer = sites.iter().filter(|it| it.state == SiteState::Reachable);
    let (answer, all) = (answer.count(), sites.len());
    let is_good = answer == all;
    let tone = if is_good { Tone::Good } else { Tone::Warn };
    let reachable = Cell::new(format!("{answer} of {all} sites reachable"), tone);
    let mut sorted: Vec<_> = sites.iter().collect();
    sorted.sort_by_key(|site| urgency(site));
    let sites = sorted.into_iter().map(|site| site_fact(site, look));
    [reachable].into_iter().chain(sites).collect()
}

/// A site with its state if it is not reachable, its latency, concurrency limit, share of errors, and whether it is
/// read-only, such as `✓ prod/RegionOne 34 ms 16 at a time`.
fn site_fact(site: &SiteStatus, look: &RenderContext) -> Cell {
    let shown = site_state(site, look);
    let (glyph, word) = shown.text.split_once(' ').unwrap_or_default();
    let is_reachable = site.state == SiteState::Reachable;
    let is_wide = look.width >= CALLS_FROM;
    let errors = site.error_percent.filter(|percent| *percent > 0);
    // If there is room for only one of latency and errors, the errors are shown.
    let shows_latency = is_reachable && (is_wide || errors.is_none());
    let latency = site.latency_ms.filter(|_| shows_latency);
    let shows_calls = is_reachable && is_wide;
    let facts = [
        Some(site.site.to_string()),
        (!is_reachable).then(|| word.to_owned()),
        latency.map(|ms| format!("{ms} ms")),
        shows_calls.then(|| format!("{} at a time", site.concurrency_limit)),
        errors.map(|percent| format!("{percent}% errors")),
        site.read_only.then(|| "read-only".to_owned()),
    ];
    let facts = joined(facts.into_iter().flatten(), " ");
    Cell::new(format!("{glyph} {facts}"), shown.tone)
}
