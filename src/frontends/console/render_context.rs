//! Tones, glyphs, words and widths for drawing. Colour alone never carries a meaning: every state has a
//! glyph and a word.

use std::fmt::Display;
use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use ratatui::style::{Color, Modifier, Style};
use unicode_truncate::UnicodeTruncateStr;
use unicode_width::UnicodeWidthStr;

use crate::domain::estimate::is_blocked;
use crate::domain::model::{Counts, Deletion, DeletionState, Site, StepState};
use crate::domain::text;
use crate::present::deletion_state_word;
use crate::system::config::{Accent, Theme};

use super::keys::Keymap;

/// Width of a screen below which ids and times are shortened, and a site's region comes before its cloud.
pub(crate) const WIDE: u16 = 100;
/// Width of a screen on which all columns are shown, except those that are shown only if a person chooses them.
pub(crate) const WIDEST: u16 = 1_000;

/// The meaning of a text; the theme maps it to a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Dim,
    Strong,
    Good,
    Busy,
    Warn,
    Bad,
}

/// The settings of the terminal and of the person that decide how things are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenderContext<'k> {
    pub(crate) keys: &'k Keymap,
    pub(crate) ascii: bool,
    pub(crate) theme: Theme,
    /// Whether to draw so that a frame takes few bytes, as on a slow line.
    pub(crate) sparing: bool,
    pub(crate) width: u16,
    pub(crate) now: DateTime<Utc>,
    /// Whether there are several sites, so that rows name theirs.
    pub(crate) many_sites: bool,
    /// Whether a replay is shown; `now` is then the time that it shows.
    pub(crate) replays: bool,
}

static KEYS: LazyLock<Keymap> = LazyLock::new(Keymap::default);

/// The context in which a row's cells are written for a search, a sort or a copy: the same for every screen. A
/// search and a sort set its time to the present.
pub(crate) static ANY_SCREEN: LazyLock<RenderContext<'static>> = LazyLock::new(|| RenderContext {
    keys: &KEYS,
    ascii: false,
    theme: Theme::Mono,
    sparing: false,
    width: WIDEST,
    now: DateTime::UNIX_EPOCH,
    many_sites: true,
    replays: false,
});

/// A piece of text in one tone, or with a tone for each of its first characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// The tones of the first characters, each of which is one column wide; the characters after them have `tone`.
    pub(crate) tones: Vec<Tone>,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
            tones: Vec::new(),
        }
    }
    /// Joins texts of the console's own, each in its tone. Their characters must be one column wide.
    pub(crate) fn of_parts<'t>(parts: impl Iterator<Item = (&'t str, Tone)>) -> Self {
        let mut cell = Self::default();
        for (text, tone) in parts {
            cell.text.push_str(text);
            cell.tones.extend(text.chars().map(|_| tone));
        }
        cell
    }
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }
    pub(crate) fn dim(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Dim)
    }
}

/// One message to the person at the console.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleMessage {
    pub(crate) at: DateTime<Utc>,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

impl RenderContext<'_> {
    /// Picks one of the terminal's own 16 colours, so that its theme decides; or no colour at all, since
    /// with `NO_COLOR` even a reset of colours would clear the reversed selection on some terminals.
    pub(crate) fn style(&self, tone: Tone) -> Style {
        // Plain, bright, and on a light background.
        let colours = match tone {
            Tone::Plain | Tone::Strong => [None; 3],
            Tone::Dim => [None, None, Some(Color::DarkGray)],
            Tone::Good => [Color::Green, Color::LightGreen, Color::Green].map(Some),
            Tone::Busy => [Color::Cyan, Color::LightCyan, Color::Blue].map(Some),
            Tone::Warn => [Color::Yellow, Color::LightYellow, Color::Magenta].map(Some),
            Tone::Bad => [Color::Red, Color::LightRed, Color::Red].map(Some),
        };
        let colour = match self.theme {
            Theme::Terminal => colours[0],
            Theme::Dark | Theme::HighContrast => colours[1],
            Theme::Light => colours[2],
            Theme::Mono => None,
        };
        let modifier = match (tone, self.theme) {
            (Tone::Strong | Tone::Bad, _) => Modifier::BOLD,
            (Tone::Good | Tone::Busy | Tone::Warn, Theme::HighContrast) => Modifier::BOLD,
            (Tone::Dim, Theme::HighContrast | Theme::Light) => Modifier::empty(),
            (Tone::Dim, _) => Modifier::DIM,
            (_, _) => Modifier::empty(),
        };
        let style = Style::new().add_modifier(modifier);
        colour.map_or(style, |colour| style.fg(colour))
    }

    /// Style of a block in a cloud's own colour; without colours the block is only reversed.
    pub(crate) fn accent(&self, accent: Accent) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
        if self.theme == Theme::Mono {
            return style;
        }
        style.fg(match accent {
            Accent::Red => Color::Red,
            Accent::Green => Color::Green,
            Accent::Yellow => Color::Yellow,
            Accent::Blue => Color::Blue,
            Accent::Magenta => Color::Magenta,
            Accent::Cyan => Color::Cyan,
        })
    }

    /// A site, for a column. On a narrow screen the region comes first, because the sites of one cloud differ in it,
    /// and a text that does not fit is cut at its end.
    pub(crate) fn site(&self, site: &Site) -> String {
        match site {
            Site::Region { cloud, region } if self.width < WIDE => format!("{region} ({cloud})"),
            site => site.to_string(),
        }
    }

    pub(crate) fn pick(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }

    /// Separator between facts on one line.
    pub(crate) fn dot(&self) -> &'static str {
        self.pick(" · ", " - ")
    }

    /// A text with the glyph and the tone of a step's state, such as `‖ paused` for a site.
    pub(crate) fn like(&self, state: StepState, text: impl Display) -> Cell {
        let (glyph, tone) = self.step_glyph(state);
        Cell::new(format!("{glyph} {text}"), tone)
    }

    /// A good fact, such as `✓ reachable`.
    pub(crate) fn good(&self, text: impl Display) -> Cell {
        self.like(StepState::Gone, text)
    }

    /// An error or another bad fact, such as `✖ unreachable`.
    pub(crate) fn bad(&self, text: impl Display) -> Cell {
        self.like(StepState::Stuck, text)
    }

    /// Returns these lines: the first states a fact and is plain; the others explain the fact and are dim. An action's
    /// name in braces is replaced by its key: `{refresh} asks again.`
    pub(crate) fn texts(&self, lines: &[impl AsRef<str>]) -> Vec<Cell> {
        let tones = std::iter::once(Tone::Plain).chain(std::iter::repeat(Tone::Dim));
        let lines = lines.iter().zip(tones);
        lines
            .map(|(text, tone)| Cell::new(self.keys.spell(text.as_ref()), tone))
            .collect()
    }

    /// Lines about failed queries, for the head of a pane.
    pub(crate) fn errors<'e>(&self, errors: impl IntoIterator<Item = &'e String>) -> Vec<Cell> {
        errors.into_iter().map(|error| self.bad(error)).collect()
    }

    /// Glyph and word of a state, such as `✖ stuck`.
    pub(crate) fn step_state(&self, state: StepState) -> Cell {
        self.like(state, state.as_str())
    }

    pub(crate) fn step_glyph(&self, state: StepState) -> (&'static str, Tone) {
        match state {
            StepState::Waiting => (self.pick("·", "."), Tone::Dim),
            StepState::Ready => (self.pick("○", "o"), Tone::Plain),
            StepState::Running => (self.pick("▶", ">"), Tone::Busy),
            StepState::Verifying => (self.pick("◌", "?"), Tone::Busy),
            StepState::Blocked => (self.pick("‖", "|"), Tone::Warn),
            StepState::Stuck => (self.pick("✖", "x"), Tone::Bad),
            StepState::Gone => (self.pick("✓", "+"), Tone::Good),
            StepState::Skipped => (self.pick("–", "-"), Tone::Dim),
            StepState::Purged => ("!", Tone::Warn),
        }
    }

    /// Glyph and word of a deletion's state. A running deletion is shown as blocked if all its remaining steps are
    /// blocked or wait for blocked ones.
    pub(crate) fn deletion_state(&self, deletion: &Deletion) -> Cell {
        let like = match deletion.state {
            _ if is_blocked(deletion) => StepState::Blocked,
            DeletionState::AwaitingApproval | DeletionState::Paused => StepState::Blocked,
            DeletionState::Planning => StepState::Verifying,
            DeletionState::Refused | DeletionState::Stuck => StepState::Stuck,
            DeletionState::Running => StepState::Running,
            DeletionState::Gone => StepState::Gone,
            DeletionState::Cancelled => StepState::Skipped,
            DeletionState::Purged => StepState::Purged,
        };
        match deletion.state {
            DeletionState::AwaitingApproval => self.like(like, "approval"),
            _ => self.like(like, deletion_state_word(deletion)),
        }
    }

    /// The time of day (UTC), after month and day if it is not today.
    pub(crate) fn time(&self, at: DateTime<Utc>) -> String {
        self.today_or(at, "%H:%M:%S", "%m-%d %H:%M")
    }

    fn today_or(&self, at: DateTime<Utc>, today: &str, other: &str) -> String {
        let is_today = at.date_naive() == self.now.date_naive();
        at.format(if is_today { today } else { other }).to_string()
    }

    pub(crate) fn maybe_time(&self, at: Option<DateTime<Utc>>) -> String {
        at.map_or_else(|| self.none().to_owned(), |at| self.time(at))
    }

    /// Works like [`Self::time`], but on a narrow screen without seconds, and for another day only month and day.
    pub(crate) fn brief(&self, at: DateTime<Utc>) -> String {
        match self.width >= WIDE {
            true => self.time(at),
            false => self.today_or(at, "%H:%M", "%m-%d"),
        }
    }

    pub(crate) fn maybe_brief(&self, at: Option<DateTime<Utc>>) -> String {
        at.map_or_else(|| self.none().to_owned(), |at| self.brief(at))
    }

    pub(crate) fn brief_width(&self) -> u16 {
        if self.width >= WIDE { 11 } else { 5 }
    }

    /// Placeholder for an empty value.
    pub(crate) fn none(&self) -> &'static str {
        self.pick("–", "-")
    }

    /// Progress as `████▓▓░░░░`: steps whose resource is gone, steps that the cloud has accepted, and the other steps.
    pub(crate) fn bar(&self, counts: &Counts, width: usize) -> String {
        let columns = |part: u64| {
            let part = u128::from(part.min(counts.total)) * width as u128;
            let columns = part.checked_div(u128::from(counts.total)).unwrap_or(0);
            usize::try_from(columns).unwrap_or(0)
        };
        let gone = columns(counts.gone);
        let accepted = columns(counts.gone + counts.verifying) - gone;
        let rest = width - gone - accepted;
        let gone = self.pick("█", "#").repeat(gone);
        let accepted = self.pick("▓", "+").repeat(accepted);
        let rest = self.pick("░", ".").repeat(rest);
        format!("{gone}{accepted}{rest}")
    }

    /// Sparkline such as `▁▃▇█`: each value relative to the highest.
    pub(crate) fn spark(&self, values: impl Iterator<Item = f64> + Clone) -> String {
        let highest = values.clone().fold(0.0, f64::max);
        let levels: Vec<char> = self.pick("▁▂▃▄▅▆▇█", "_.:-=+*#").chars().collect();
        let level = |value: f64| {
            let share = if highest > 0.0 { value / highest } else { 0.0 };
            // The share is between 0 and 1, so this is a valid index.
            let at = (share.clamp(0.0, 1.0) * (levels.len() - 1) as f64).round();
            levels.get(at as usize).copied().unwrap_or(' ')
        };
        values.map(level).collect()
    }

    /// Escapes a text and cuts it to this width; a mark at its end shows that it was cut.
    pub(crate) fn fit(&self, text: &str, width: usize) -> String {
        if text.len() <= width && text::is_plain(text) {
            return text.to_owned();
        }
        // Only as much as could be shown is processed, however long a name is.
        let end = text.char_indices().nth(width * 4 + 8);
        let end = end.map_or(text.len(), |(at, _)| at);
        let safe = self.safe(text.get(..end).unwrap_or_default());
        if width == 0 || (end == text.len() && safe.width() <= width) {
            return if width == 0 { String::new() } else { safe };
        }
        let (kept, _) = safe.unicode_truncate(width - 1);
        format!("{kept}{}", self.pick("…", "~"))
    }

    /// Works like [`Self::fit`]; with `keep_end` the start is cut instead, because ids differ at their ends.
    pub(crate) fn fit_end(&self, text: &str, width: usize, keep_end: bool) -> String {
        if !keep_end || width == 0 {
            return self.fit(text, width);
        }
        let start = text.char_indices().rev().nth(width * 4 + 8);
        let end = text.get(start.map_or(0, |(at, _)| at)..);
        let safe = self.safe(end.unwrap_or_default());
        if safe.width() <= width {
            return safe;
        }
        let (kept, _) = safe.unicode_truncate_start(width - 1);
        format!("{}{kept}", self.pick("…", "~"))
    }

    /// Replaces control, reordering and invisible characters by visible escapes; in ASCII mode all other
    /// non-ASCII characters too.
    pub(crate) fn safe(&self, text: &str) -> String {
        let safe = text::escape(text);
        if !self.ascii || safe.is_ascii() {
            return safe.into_owned();
        }
        safe.chars()
            .map(|c| match c {
                // Our own sentences use this character, which has an ASCII spelling.
                '…' => "...".to_owned(),
                c if c.is_ascii() => c.to_string(),
                c => format!("\\u{{{:x}}}", u32::from(c)),
            })
            .collect()
    }

    /// Works like [`Self::wrap`], for lines with their tones; each of them takes at most `rows` lines.
    pub(crate) fn wrap_all(&self, lines: &[Cell], width: u16, rows: usize) -> Vec<Cell> {
        let wrapped = lines.iter().flat_map(|cell| {
            // A text with tones for its characters is a picture: it is one line, which is cut and not wrapped.
            if !cell.tones.is_empty() {
                return vec![cell.clone()];
            }
            let rows = self.wrap(&cell.text, usize::from(width), rows).into_iter();
            rows.map(|text| Cell::new(text, cell.tone)).collect()
        });
        wrapped.collect()
    }

    /// Breaks a text at spaces into at most `rows` lines; a mark shows that the rest was cut.
    pub(crate) fn wrap(&self, text: &str, width: usize, rows: usize) -> Vec<String> {
        let safe = self.safe(text);
        let (mut rest, mut lines) = (safe.as_str(), Vec::new());
        while lines.is_empty() || !rest.is_empty() && lines.len() <= rows {
            // Any character fits into two columns.
            let (fits, _) = rest.unicode_truncate(width.max(2));
            let (_, after) = rest.split_at(fits.len());
            let cuts_word = !after.is_empty() && !after.starts_with(' ');
            let (line, after) = match fits.rfind(' ') {
                Some(at) if cuts_word => rest.split_at(at + 1),
                _ => (fits, after),
            };
            lines.push(line.to_owned());
            rest = after.trim_start();
        }
        if lines.len() > rows {
            lines.truncate(rows);
            if let Some(last) = lines.last_mut() {
                let (kept, _) = last.unicode_truncate(width.max(1) - 1);
                let kept = kept.trim_end_matches([' ', '…', '~']);
                *last = format!("{kept}{}", self.pick("…", "~"));
            }
        }
        lines
    }
}

/// Returns a text, or a placeholder if it is empty.
pub(crate) fn or_none<'a>(text: &'a str, look: &RenderContext) -> &'a str {
    if text.is_empty() { look.none() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(ascii: bool) -> RenderContext<'static> {
        RenderContext {
            ascii,
            ..*ANY_SCREEN
        }
    }

    #[test]
    fn cut_text_ends_with_an_ellipsis_and_fits_its_width() {
        for (text, width, shown) in [
            ("web", 5, "web"),
            ("web-frontend", 5, "web-…"),
            ("漢字漢字", 5, "漢字…"),
            ("漢字漢字", 4, "漢…"),
            ("a\u{1b}]2;x", 20, "a\\u{1b}]2;x"),
            ("web", 0, ""),
        ] {
            assert_eq!(look(false).fit(text, width), shown);
        }
        assert_eq!(look(true).fit("é", 20), "\\u{e9}");
        assert!(look(true).fit(&"é".repeat(500), 9).is_ascii());
    }

    #[test]
    fn long_texts_wrap_at_spaces_and_end_with_an_ellipsis_when_cut() {
        let lines = look(false).wrap("one two three four", 9, 2);
        assert_eq!(lines, ["one two ", "three…"]);
        for width in 1..20 {
            for line in look(false).wrap("漢字 aaaaaaaaaaaaaaaaaaaaaaaaaa bb\n", width, 3) {
                let shown = line.trim_end().width();
                assert!(shown <= width.max(2), "{line:?} at {width}");
            }
        }
    }

    #[test]
    fn a_bar_shows_gone_and_accepted_steps() {
        let counts = Counts {
            gone: 5,
            verifying: 2,
            waiting: 3,
            total: 10,
            ..Counts::default()
        };
        assert_eq!(look(true).bar(&counts, 10), "#####++...");
        assert_eq!(look(false).bar(&counts, 5), "██▓░░");
        assert_eq!(look(true).bar(&Counts::default(), 4), "....");
        let spark = |values: &[f64]| look(false).spark(values.iter().copied());
        assert_eq!(spark(&[0.0, 1.0, 3.5, 7.0]), "▁▂▅█");
        assert_eq!(spark(&[0.0, 0.0]), "▁▁");
    }

    #[test]
    fn each_theme_has_distinct_tones_that_are_readable_on_its_background() {
        let tones = [Tone::Good, Tone::Busy, Tone::Warn, Tone::Bad];
        let themes = [
            Theme::Terminal,
            Theme::Dark,
            Theme::Light,
            Theme::HighContrast,
        ];
        for theme in themes {
            let look = RenderContext {
                theme,
                ..look(false)
            };
            let colours = tones.map(|tone| look.style(tone).fg);
            for (at, colour) in colours.iter().enumerate() {
                assert!(colour.is_some(), "{theme:?}");
                assert!(!colours[..at].contains(colour), "{theme:?}: {colours:?}");
            }
            let dim = look.style(Tone::Dim).add_modifier.contains(Modifier::DIM);
            assert_eq!(dim, matches!(theme, Theme::Terminal | Theme::Dark));
            let pale = [
                Color::Yellow,
                Color::Cyan,
                Color::LightYellow,
                Color::LightCyan,
            ];
            let is_pale = colours.iter().flatten().any(|it| pale.contains(it));
            assert_eq!(is_pale, theme != Theme::Light, "{theme:?}");
        }
        for tone in tones {
            assert_eq!(look(false).style(tone).fg, None);
        }
        assert_eq!(look(false).accent(Accent::Red).fg, None);
    }
}
