//! The header: what needs a person, how much is under way, which sites answer.

use chrono::{DateTime, Utc};
use ratatui::layout::Rect;

use crate::control::SiteState;
use crate::domain::model::{Site, StepState};

use super::super::look::{Cell, RenderContext, Tone};
use super::super::panes::sites::site_state;
use super::super::prompt::Confirm;
use super::super::state::State;
use super::super::{EngineMode, Replayed};
use super::Canvas;
use crate::present::thousands;
use crate::system::config::Accent;

pub(super) fn draw(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let look = canvas.look;
    if let (Some(replay), Some(at)) = (&state.options.replay, state.shown_at()) {
        return draw_replay(state, canvas, area, replay, at);
    }
    match area.height {
        1 => line(canvas, area.y, counts(state, &look)),
        2 => {
            engine(state, canvas, area.y);
            line(canvas, area.y + 1, counts(state, &look));
        }
        _ => {
            engine(state, canvas, area.y);
            line(canvas, area.y + 1, counts(state, &look));
            line(canvas, area.y + 2, sites(state, &look));
        }
    }
}

/// Draws the header of a replay: first, loudly, that it is a replay and its time, so that nobody takes it for
/// the present; then the position of that time in the replay.
fn draw_replay(
    state: &State,
    canvas: &mut Canvas<'_>,
    area: Rect,
    replay: &Replayed,
    at: DateTime<Utc>,
) {
    let look = canvas.look;
    let loud = |canvas: &mut Canvas<'_>, text: &str| {
        let width = u16::try_from(text.len()).unwrap_or(u16::MAX) + 2;
        canvas.put(
            1,
            area.y,
            width,
            &format!(" {text} "),
            look.style(Tone::Warn),
        );
        canvas.reverse(Rect::new(1, area.y, width.min(area.width - 1), 1));
        width + 2
    };
    let mut facts = counts(state, &look);
    if area.height == 1 {
        let x = loud(canvas, &format!("REPLAY {}", at.format("%T")));
        facts.insert(0, Cell::plain(bar(replay, at, &look, 8)));
        return line_from(canvas, x, area.y, facts);
    }
    let x = loud(canvas, &format!("REPLAY {}", at.format("%F %T%.3f UTC")));
    let told = format!("nothing is changed{}of {}", look.dot(), replay.ledger);
    let room = area.width.saturating_sub(x + 1);
    canvas.put(x, area.y, room, &told, look.style(Tone::Dim));
    if area.height == 2 {
        facts.insert(0, Cell::plain(bar(replay, at, &look, 20)));
        return line(canvas, area.y + 1, facts);
    }
    line(canvas, area.y + 1, facts);
    let (first, last) = ends(replay);
    let room = usize::from(area.width).saturating_sub(first.len() + last.len() + 6);
    let times = [
        Cell::dim(first),
        Cell::plain(bar(replay, at, &look, room)),
        Cell::dim(last),
    ];
    line(canvas, area.y + 2, times.to_vec());
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
    let (passed, mark, left) = (
        look.pick("━", "="),
        look.pick("●", "O"),
        look.pick("─", "-"),
    );
    format!(
        "{}{mark}{}",
        passed.repeat(before),
        left.repeat(room - before)
    )
}

/// Draws facts side by side. A fact without room is left out whole: half a number misleads.
fn line(canvas: &mut Canvas<'_>, y: u16, facts: Vec<Cell>) {
    line_from(canvas, 1, y, facts);
}

fn line_from(canvas: &mut Canvas<'_>, from: u16, y: u16, facts: Vec<Cell>) {
    let look = canvas.look;
    let mut x = from;
    for fact in facts {
        let wide = unicode_width::UnicodeWidthStr::width(&*look.safe(&fact.text));
        let room = look.width.saturating_sub(x + 1);
        if x > 1 && wide > usize::from(room) {
            canvas.own(x, y, look.pick("…", "~"), look.style(Tone::Dim));
            return;
        }
        x = canvas.put(x, y, room, &fact.text, look.style(fact.tone)) + 2;
    }
}

fn engine(state: &State, canvas: &mut Canvas<'_>, y: u16) {
    let look = canvas.look;
    let engine = &state.snapshot.engine;
    let mut end = canvas.put(1, y, look.width - 1, "gone", look.style(Tone::Strong)) + 2;
    for (cloud, accent) in accents(state) {
        let room = look.width.saturating_sub(end + 1);
        end = canvas.put(end, y, room, &format!(" {cloud} "), look.accent(accent)) + 1;
    }
    let mut right = vec![Cell::dim(state.options.actor.name.clone())];
    if engine.read_only {
        right.insert(0, Cell::new("READ-ONLY", Tone::Warn));
    }
    let wide: usize = right
        .iter()
        .map(|cell| unicode_width::UnicodeWidthStr::width(&*look.safe(&cell.text)) + 2)
        .sum();
    let wide = u16::try_from(wide)
        .unwrap_or(look.width)
        .min(look.width / 2);
    let mut x = look.width - wide;
    let room = x.saturating_sub(end + 1);
    let words = engine_words(state, &look);
    canvas.put(end, y, room, &words.text, look.style(words.tone));
    for cell in right {
        let room = look.width.saturating_sub(x + 1);
        x = canvas.put(x, y, room, &cell.text, look.style(cell.tone)) + 2;
    }
}

/// Tells in which process the engine runs, and whether it works.
pub(super) fn engine_words(state: &State, look: &RenderContext) -> Cell {
    let engine = &state.snapshot.engine;
    let glyph = look.pick("✖", "x");
    if state.engine_gone {
        Cell::new(format!("{glyph} the engine has gone"), Tone::Bad)
    } else if let Some(fault) = &engine.fault {
        Cell::new(format!("{glyph} takes no new work: {fault}"), Tone::Bad)
    } else if state.options.engine == EngineMode::Embedded {
        Cell::dim("engine in this console")
    } else {
        Cell::dim(format!("attached to engine {}", engine.pid))
    }
}

/// The colours of the clouds that this engine serves.
pub(super) fn accents(state: &State) -> impl Iterator<Item = (&str, Accent)> {
    let accents = state.options.accent.iter();
    accents.filter_map(|(cloud, accent)| {
        let mut sites = state.snapshot.sites.iter();
        let is_here = sites.any(|status| match &status.site {
            Site::Region { cloud: own, .. } => **own == **cloud,
            Site::Deployment { .. } => false,
        });
        is_here.then_some((cloud.as_str(), *accent))
    })
}

/// The colours of the clouds that a confirmed command affects.
pub(super) fn accents_of<'s>(
    state: &'s State,
    confirm: &'s Confirm,
) -> impl Iterator<Item = (&'s str, Accent)> {
    accents(state).filter(|(cloud, _)| {
        let mut sites = confirm.sites.iter();
        sites.any(|site| matches!(site, Site::Region { cloud: own, .. } if **own == **cloud))
    })
}

/// The counts: first what needs a person, then what moves, then what is done.
pub(super) fn counts(state: &State, look: &RenderContext) -> Vec<Cell> {
    let snapshot = &state.snapshot;
    let steps = &snapshot.steps;
    let of = |state: &str| snapshot.deletions_by_state.get(state).copied().unwrap_or(0);
    let mut facts = Vec::new();
    if look.width < 60 && snapshot.engine.read_only && !look.replays {
        facts.push(Cell::new("READ-ONLY", Tone::Warn));
    }
    let mut fact = |glyph: &str, n: u64, word: &str, tone: Tone| {
        if n > 0 {
            facts.push(Cell::new(format!("{glyph} {} {word}", thousands(n)), tone));
        }
    };
    let (stuck, bad) = look.step_glyph(StepState::Stuck);
    fact(stuck, steps.stuck, "stuck", bad);
    fact(stuck, of("refused"), "refused", bad);
    let (blocked, warn) = look.step_glyph(StepState::Blocked);
    fact(blocked, of("awaiting_approval"), "to approve", warn);
    fact(blocked, steps.blocked, "blocked", warn);
    let (running, busy) = look.step_glyph(StepState::Running);
    fact(running, steps.running, "running", busy);
    let (verifying, busy) = look.step_glyph(StepState::Verifying);
    fact(verifying, steps.verifying, "verifying", busy);
    let (waiting, dim) = look.step_glyph(StepState::Waiting);
    fact(waiting, steps.waiting + steps.ready, "waiting", dim);
    let (gone, good) = look.step_glyph(StepState::Gone);
    fact(gone, steps.gone, "gone", good);
    if snapshot.rate_per_second >= 0.05 {
        let mut rate = format!("{:.1}/s", snapshot.rate_per_second);
        if state.rates.len() > 1 && !look.sparing {
            rate.push(' ');
            rate.push_str(&look.spark(state.rates.iter().map(|(_, rate)| *rate)));
        }
        facts.push(Cell::dim(rate));
    }
    if facts.is_empty() {
        facts.push(Cell::dim(match look.replays {
            true => "nothing was under way, nothing needed anyone",
            false => "nothing under way, nothing needs you",
        }));
    }
    facts
}

/// Width from which each site's concurrency limit is shown.
const CALLS_FROM: u16 = 100;

/// The number of sites that answer; then each site, with those that do not answer first.
pub(super) fn sites(state: &State, look: &RenderContext) -> Vec<Cell> {
    let sites = &state.snapshot.sites;
    if sites.is_empty() {
        return vec![Cell::dim(
            "no cloud is configured; gone doctor says what was found",
        )];
    }
    let answer = sites
        .iter()
        .filter(|s| s.state == SiteState::Reachable)
        .count();
    let tone = if answer == sites.len() {
        Tone::Good
    } else {
        Tone::Warn
    };
    let mut facts = vec![Cell::new(
        format!("{answer} of {} sites reachable", sites.len()),
        tone,
    )];
    let mut sorted: Vec<_> = sites.iter().collect();
    sorted.sort_by_key(|site| match site.state {
        SiteState::Unreachable => 0,
        SiteState::Paused => 1,
        SiteState::Unknown => 2,
        SiteState::Reachable => 3,
    });
    facts.extend(sorted.into_iter().map(|site| {
        let shown = site_state(site, look);
        let glyph = shown.text.split(' ').next().unwrap_or_default();
        let read_only = if site.read_only { " read-only" } else { "" };
        let errors = site.error_percent.filter(|percent| *percent > 0);
        let is_wide = look.width >= CALLS_FROM;
        let mut rest = match (site.state, site.latency_ms) {
            // If there is room for only one of latency and errors, it shows the errors.
            (SiteState::Reachable, Some(ms)) if is_wide || errors.is_none() => format!(" {ms} ms"),
            (SiteState::Reachable, Some(_)) => String::new(),
            (SiteState::Reachable, None) => String::new(),
            (SiteState::Unreachable, _) => " unreachable".to_owned(),
            (SiteState::Paused, _) => " paused".to_owned(),
            (SiteState::Unknown, _) => " not asked yet".to_owned(),
        };
        if site.state == SiteState::Reachable && is_wide {
            rest.push_str(&format!(" {} at a time", site.concurrency_limit));
        }
        if let Some(percent) = errors {
            rest.push_str(&format!(" {percent}% errors"));
        }
        Cell::new(
            format!("{glyph} {}{rest}{read_only}", site.site),
            shown.tone,
        )
    }));
    facts
}
