//! Everything that the console knows and shows, as plain data that depends on no terminal.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::control::{KindInfo, SiteState, SiteStatus, Snapshot, query};
use crate::domain::text::did_you_mean;
use crate::system::config::Theme;

use super::bulk::BulkCommands;
use super::command::{self, Destination, Known};
use super::event::{Effect, Outbox};
use super::keys::Scope;
use super::panes::kit::{Choosable, Context, Pane, PaneRequest, columns_owner};
use super::panes::{Around, Route, open};
use super::prompt::{Asked, CommandWords, Prompt};
use super::render_context::{ConsoleMessage, RenderContext, Tone};
use super::replay_cursor::ReplayCursor;
use super::scope::{AppliedScope, EstateScope};
use super::{ConsoleOptions, EngineMode, Exit, layout};
use ratatui::layout::Rect;

/// Maximum number of open panes, more than a person opens; beyond it the oldest pane is dropped.
const STACK_MAX: usize = 32;
/// Maximum number of lines typed after `:` that can be recalled.
const WORDS_MAX: usize = 100;
/// Number of samples of the rate that the header shows.
const RATES_MAX: usize = 12;
/// Number of earlier events that are read when events begin to be followed.
const EARLIER_EVENTS: i64 = 200;
/// Maximum number of this console's messages that `:events` shows.
const MESSAGES_MAX: usize = 500;

/// Maximum number of events that are counted at one moment of a replay.
const TOGETHER_MAX: i64 = 100;

/// The whole console. [`super::update`] changes it for each event; [`super::render`] and [`super::render_lines`] draw
/// it.
pub struct State {
    pub(super) options: ConsoleOptions,
    pub(super) size: (u16, u16),
    pub(super) now: DateTime<Utc>,
    pub(super) snapshot: Arc<Snapshot>,
    /// Steps that clouds accepted per second, sampled at most once a second, the newest last.
    pub(super) rates: VecDeque<(DateTime<Utc>, f64)>,
    pub(super) engine_gone: bool,
    pub(super) kinds: Vec<KindInfo>,
    pub(super) kinds_ticket: Option<u64>,
    /// The names of projects by id, queried once a filter or the scope is by project, or a project is typed after `:`;
    /// shared with the filter that is being set.
    pub(super) projects: Arc<BTreeMap<String, String>>,
    pub(super) projects_tickets: BTreeSet<u64>,
    /// Names of the clouds whose projects were queried.
    projects_of: BTreeSet<String>,
    /// The open panes, and behind them those that were left, the latest first; these are dropped when
    /// another pane is opened.
    panes: Vec<Box<dyn Pane>>,
    /// Number of open panes; the last of them is on top.
    open: usize,
    /// The lines typed after `:`, each once, the newest last.
    pub(super) words: VecDeque<String>,
    /// The text that tab completes, and the index of the completion that is shown.
    pub(super) completing: Option<(String, usize)>,
    pub(super) prompt: Option<Prompt>,
    /// The message that the person sees, until the next message, key or click. It is not in `messages` if it was shown
    /// by [`Self::say_once`].
    pub(super) message: Option<ConsoleMessage>,
    /// Whether the message says that the pane on top has no row, so that it is dropped once there is a row.
    says_empty: bool,
    pub(super) messages: VecDeque<ConsoleMessage>,
    /// Whether a guarded screen (a plan, a question before a command, or a reopened pane) is not painted yet; keys are
    /// ignored until it is.
    pub(super) guarded: bool,
    /// Commands under way by ticket, each with its words for the person; without those of `bulks`, of a replay's moves,
    /// and those whose receipts a pane takes.
    pub(super) submitted: HashMap<u64, CommandWords>,
    /// Commands that were confirmed together and are under way.
    pub(super) bulks: Vec<BulkCommands>,
    /// Number of reports that are being written.
    pub(super) reports_under_way: usize,
    /// Sequence number of the last event that was followed.
    pub(super) followed: Option<i64>,
    /// Ticket of the request for the next events, if one is under way.
    pub(super) following: Option<u64>,
    /// Number of ticks, for the sign that something is under way.
    pub(super) ticks: usize,
    /// The part of all clouds that is shown.
    pub(super) scope: EstateScope,
    /// The scope as lists apply it.
    pub(super) applied_scope: AppliedScope,
    /// A line after `:` that waits until the kinds are known.
    pub(super) start: Option<String>,
    /// A line that a pane asked to be entered after `:`.
    pub(super) entering: Option<String>,
    pub(super) dirty: bool,
    /// The moves of a replay to other times, and what happened at the time that it shows.
    pub(super) replay_cursor: ReplayCursor,
    pub(super) outbox: Outbox,
}

impl State {
    /// Returns a console before its first frame, and its first queries. `size` is columns and rows.
    pub fn new(
        options: ConsoleOptions,
        snapshot: Arc<Snapshot>,
        now: DateTime<Utc>,
        size: (u16, u16),
    ) -> (Self, Vec<Effect>) {
        let start = options.start.clone();
        let mut state = Self {
            options,
            size,
            now,
            snapshot,
            rates: VecDeque::new(),
            engine_gone: false,
            kinds: Vec::new(),
            kinds_ticket: None,
            projects: Arc::default(),
            projects_tickets: BTreeSet::new(),
            projects_of: BTreeSet::new(),
            panes: Vec::new(),
            open: 0,
            words: VecDeque::new(),
            completing: None,
            prompt: None,
            message: None,
            says_empty: false,
            messages: VecDeque::new(),
            guarded: false,
            submitted: HashMap::new(),
            bulks: Vec::new(),
            reports_under_way: 0,
            followed: None,
            following: None,
            ticks: 0,
            scope: EstateScope::default(),
            applied_scope: AppliedScope::default(),
            start,
            entering: None,
            dirty: true,
            replay_cursor: ReplayCursor::default(),
            outbox: Outbox::default(),
        };
        state.ask_kinds();
        state.go(match state.replays() {
            true => "deletions",
            false => "home",
        });
        // Only the word of a pane opens at once; any other line waits until the kinds are known.
        let opens_now =
            |word: &String| matches!(command::find_destination(word, &[]), Destination::Pane(_));
        if let Some(word) = state.start.take_if(|word| opens_now(word)) {
            state.go(&word);
        }
        if state.options.tour {
            state.say(Tone::Strong, ":tour shows you round this practice cloud");
        }
        if state.replays() {
            state.ask_what_happened();
        }
        state.fit_cursor();
        let effects = state.outbox.take();
        (state, effects)
    }

    pub(super) fn ask_kinds(&mut self) {
        if self.kinds_ticket.is_none() && self.kinds.is_empty() {
            self.kinds_ticket = Some(self.outbox.ask(query::Kinds {}));
        }
    }

    /// Queries the projects if the filter of the pane on top or the scope is by project.
    pub(super) fn ask_projects(&mut self) {
        let asks = |pane: &dyn Pane| pane.list().filter.asks_for_projects();
        if self.top().is_some_and(asks) || self.scope.project.is_some() {
            self.list_projects();
        }
    }

    /// Queries the projects of each cloud once, at one of its reachable sites.
    pub(super) fn list_projects(&mut self) {
        let snapshot = self.snapshot.clone();
        let answers = |status: &&SiteStatus| status.state == SiteState::Reachable;
        for SiteStatus { site, .. } in snapshot.sites.iter().filter(answers) {
            let cloud = site.cloud().map(str::to_owned);
            if cloud.is_some_and(|cloud| self.projects_of.insert(cloud)) {
                let ticket = self.outbox.ask(query::Resources {
                    kind: "project".to_owned(),
                    site: Some(site.clone()),
                    names: false,
                    bare: true,
                });
                self.projects_tickets.insert(ticket);
            }
        }
    }

    pub(super) fn sample_rate(&mut self) {
        let last = self.rates.back();
        if last.is_none_or(|(at, _)| self.now - *at >= TimeDelta::seconds(1)) {
            let rate = (self.now, self.snapshot.rate_per_second);
            push_bounded(&mut self.rates, rate, RATES_MAX);
        }
    }

    /// Whether something is under way that will change the screen, so that the loop sends ticks. A replay
    /// does not change by itself.
    pub fn wants_tick(&self) -> bool {
        let is_live = self.top().is_some_and(Pane::is_live);
        self.is_waiting() || (is_live && !self.replays())
    }

    /// Whether the engine has ended or cannot be reached, so that the last snapshot is all that is known.
    pub(super) fn has_lost_engine(&self) -> bool {
        self.engine_gone || self.snapshot.engine.unreachable_since.is_some()
    }

    pub(super) fn replays(&self) -> bool {
        self.options.replay.is_some()
    }

    /// The time that a replay shows; `None` without a replay.
    pub(super) fn shown_at(&self) -> Option<DateTime<Utc>> {
        let replay = self.options.replay.as_ref()?;
        Some(self.snapshot.at.unwrap_or(replay.last))
    }

    /// Queries the last events up to the time that a replay shows.
    pub(super) fn ask_what_happened(&mut self) {
        self.replay_cursor.asked = Some(self.outbox.ask(query::Timeline {
            after: (self.snapshot.last_event - TOGETHER_MAX).max(0),
            ..query::Timeline::default()
        }));
    }

    /// The time that counts as the present when ages are computed.
    pub(super) fn ages_as_of(&self) -> DateTime<Utc> {
        self.shown_at().unwrap_or(self.now)
    }

    /// Whether the console waits for an answer of the engine, or for a report to be written.
    pub(super) fn is_waiting(&self) -> bool {
        self.kinds_ticket.is_some()
            || !self.projects_tickets.is_empty()
            || !self.submitted.is_empty()
            || !self.bulks.is_empty()
            || self.reports_under_way > 0
            || self.replay_cursor.is_waiting()
            || self.top().is_some_and(Pane::is_busy)
    }

    /// Whether keys are ignored until [`super::Event::GuardPainted`]: a guarded screen is not painted yet.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// Whether something visible may have changed since the last call.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    pub(super) fn look(&self) -> RenderContext<'_> {
        RenderContext {
            keys: &self.options.keys,
            // Non-ASCII signs take three bytes, and the cursor is positioned again after each.
            ascii: self.options.ascii || self.options.low_bandwidth,
            sparing: self.options.low_bandwidth,
            theme: match self.options.no_color {
                true => Theme::Mono,
                false => self.options.theme,
            },
            width: self.size.0,
            now: self.ages_as_of(),
            replays: self.replays(),
            many_sites: self.snapshot.sites.len() > 1,
        }
    }

    pub(super) fn top(&self) -> Option<&dyn Pane> {
        let pane = self.panes.get(self.open.checked_sub(1)?)?;
        Some(&**pane)
    }

    /// The panes to which [`Self::back`] returns, the nearest one last.
    pub(super) fn panes_below(&self) -> &[Box<dyn Pane>] {
        let below = self.open.saturating_sub(1);
        self.panes.get(..below).unwrap_or_default()
    }

    pub(super) fn open_panes(&mut self) -> impl Iterator<Item = &mut Box<dyn Pane>> {
        self.panes.iter_mut().take(self.open)
    }

    /// Sends the next of the commands that were confirmed together, as many as may be under way at once.
    pub(super) fn send_bulks(&mut self) {
        for bulk in &mut self.bulks {
            bulk.send(&mut self.outbox);
        }
    }

    pub(super) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.say_once(tone, text);
        if let Some(message) = self.message.clone() {
            push_bounded(&mut self.messages, message, MESSAGES_MAX);
        }
    }

    /// Shows a message that is neither a success, a warning nor an error.
    pub(super) fn hint(&mut self, text: impl Into<String>) {
        self.say(Tone::Dim, text);
    }

    /// Shows a warning, mostly the reason why a request of the person was not carried out.
    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.say(Tone::Warn, text);
    }

    /// Says that something failed.
    pub(super) fn fail(&mut self, text: impl Into<String>) {
        self.say(Tone::Bad, text);
    }

    /// Shows a message that `:events` does not list, such as why a key did nothing.
    pub(super) fn say_once(&mut self, tone: Tone, text: impl Into<String>) {
        self.says_empty = false;
        let (at, text) = (self.now, text.into());
        self.message = Some(ConsoleMessage { at, tone, text });
    }

    /// Drops the message that the pane on top has no row, once it has one.
    pub(super) fn drop_outdated_message(&mut self) {
        let has_rows = self.top().is_some_and(|pane| pane.len() > 0);
        if self.says_empty && has_rows {
            self.message = None;
            self.says_empty = false;
        }
    }

    /// Calls the pane on top, and then fulfils its requests.
    pub(super) fn with_top<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Pane, &mut Context) -> T,
    ) -> Option<T> {
        let at = self.open.checked_sub(1)?;
        self.with_pane(at, work)
    }

    /// Calls all panes, the latest first, until one returns true; returns whether one did. Panes that were
    /// left are called too: they still receive their answers.
    pub(super) fn with_any(
        &mut self,
        mut work: impl FnMut(&mut dyn Pane, &mut Context) -> bool,
    ) -> bool {
        let mut all = (0..self.panes.len()).rev();
        all.any(|at| self.with_pane(at, &mut work) == Some(true))
    }

    fn with_pane<T>(
        &mut self,
        at: usize,
        work: impl FnOnce(&mut dyn Pane, &mut Context) -> T,
    ) -> Option<T> {
        let mut requests = Vec::new();
        let (ages_as_of, replays) = (self.ages_as_of(), self.replays());
        let pane = self.panes.get_mut(at)?;
        pane.list_mut().filter.set_now(ages_as_of);
        let mut context = Context {
            keys: &self.options.keys,
            snapshot: &self.snapshot,
            now: self.now,
            replays,
            outbox: &mut self.outbox,
            requests: &mut requests,
        };
        let result = work(pane.as_mut(), &mut context);
        for request in requests {
            self.grant(request, at);
        }
        Some(result)
    }

    fn grant(&mut self, request: PaneRequest, asker: usize) {
        let is_top = asker + 1 == self.open;
        match request {
            // Only the pane on top may ask the person, or be left.
            PaneRequest::Back | PaneRequest::Ask(_) | PaneRequest::Report(_) if !is_top => {}
            PaneRequest::Push(route) => self.push(open(route)),
            PaneRequest::Go(word) => self.go(word),
            PaneRequest::Replace(route) => {
                let pane = open(route);
                if is_top {
                    self.open = asker;
                    self.push(pane);
                } else if let Some(place) = self.panes.get_mut(asker) {
                    // The pane is opened when the person returns to it.
                    *place = pane;
                }
            }
            PaneRequest::Back => self.back(),
            PaneRequest::Enter(line) => self.entering = Some(line),
            PaneRequest::Say(tone, text) => self.say(tone, text),
            PaneRequest::SayEmpty(text) => {
                self.warn(text);
                self.says_empty = true;
            }
            PaneRequest::Ask(confirm) if self.prompt.is_some() => {
                // The question must not replace what the person types meanwhile.
                let not_asked = "the confirmation does not open while you type; press the key of the command again";
                self.warn(format!("{}: {not_asked}", confirm.words.what));
            }
            PaneRequest::Ask(confirm) => {
                self.prompt = Some(Prompt::Confirm(confirm));
                self.guarded = true;
            }
            PaneRequest::Submit(words, command) => {
                let ticket = self.outbox.submit(command, "");
                self.submitted.insert(ticket, words);
            }
            PaneRequest::Report(deletion_id) => self.prompt = Some(Prompt::report(deletion_id)),
            PaneRequest::Guard => self.guarded |= is_top,
        }
    }

    pub(super) fn push(&mut self, pane: Box<dyn Pane>) {
        self.panes.truncate(self.open);
        self.panes.push(pane);
        if self.panes.len() > STACK_MAX {
            self.panes.remove(0);
        }
        self.open = self.panes.len();
        self.open_top();
    }

    fn open_top(&mut self) {
        let scope = self.applied_scope.clone();
        self.show_chosen_columns();
        self.with_top(|pane, context| {
            pane.narrow(&scope);
            pane.open(context);
        });
        self.follow();
    }

    /// Shows in the pane on top the columns that the person chose for it, or else as many as fit on the screen. If the
    /// settings name a column that the pane does not have, a message says so once, and the other columns are shown.
    pub(super) fn show_chosen_columns(&mut self) {
        let Some(Choosable { kept_as, names }) = self.top().and_then(Pane::choosable) else {
            return;
        };
        let chosen = self.options.columns.get(&kept_as);
        let chosen = chosen.map_or("", String::as_str).split_whitespace();
        let chosen = chosen.map(str::to_owned);
        let (known, unknown): (Vec<_>, Vec<_>) = chosen.partition(|name| names.contains(name));
        if let Some(name) = unknown.first() {
            let near = did_you_mean(name, names.iter().map(String::as_str));
            let owner = columns_owner(&kept_as);
            self.warn(format!(
                "the settings name a column that {owner} does not have: \"{name}\"{near}"
            ));
            self.options.columns.insert(kept_as, known.join(" "));
        }
        if let Some(pane) = self.open_panes().last() {
            pane.list_mut().columns = known;
        }
    }

    /// Returns to the pane below; the first pane stays.
    pub(super) fn back(&mut self) {
        if self.open > 1 {
            self.open -= 1;
            self.open_top();
        }
    }

    /// Reopens the pane that was left last. It may be a plan, so keys are ignored until it is painted.
    pub(super) fn next(&mut self) {
        if self.open < self.panes.len() {
            self.guarded = true;
            self.open += 1;
            self.open_top();
        }
    }

    pub(super) fn remember(&mut self, word: &str) {
        self.words.retain(|known| known != word);
        push_bounded(&mut self.words, word.to_owned(), WORDS_MAX);
    }

    /// Requests the next events if the pane on top shows them.
    pub(super) fn follow(&mut self) {
        let follows = self.top().is_some_and(Pane::follows) && !self.replays();
        if self.following.is_some() || !follows {
            return;
        }
        let after = self.followed_until();
        self.following = Some(self.outbox.follow(after));
    }

    /// Sequence number after which events are read. At first, some events before the present are read too.
    pub(super) fn followed_until(&self) -> i64 {
        let early = || (self.snapshot.last_event - EARLIER_EVENTS).max(0);
        self.followed.unwrap_or_else(early)
    }

    /// Returns the names from which words after `:` are completed.
    pub(super) fn known(&self) -> Known<'_> {
        let choosable = self.top().and_then(Pane::choosable);
        Known {
            kinds: &self.kinds,
            sites: &self.snapshot.sites,
            projects: &self.projects,
            views: &self.options.views,
            columns: choosable.map_or_else(Vec::new, |it| it.names),
        }
    }

    fn around(&self) -> Around<'_> {
        Around {
            keys: &self.options.keys,
            kinds: &self.kinds,
            scope: self.top().map_or(Scope::Everywhere, Pane::scope),
            messages: &self.messages,
            replays: self.replays(),
            practices: self.options.tour,
        }
    }

    /// Opens the pane or the kind that the word names, or quits.
    pub(super) fn go(&mut self, word: &str) {
        let pane = match command::find_destination(word, &self.kinds) {
            Destination::Kind(kind) => open(Route::Browse(kind)),
            Destination::Quit => return self.quit(),
            Destination::Pane(named) => match (named.open)(&self.around()) {
                Ok(pane) => pane,
                Err(why) => return self.warn(why),
            },
            Destination::Unknown(text) => {
                self.warn(text);
                return self.ask_kinds();
            }
        };
        if pane.follows() {
            // The pane starts empty, so events are read again from a little earlier.
            self.followed = None;
            self.following = None;
        }
        if self.top().and_then(Pane::word) == pane.word() {
            self.open -= 1;
        }
        self.push(pane);
    }

    /// The view on top, as it can be typed after `:`.
    pub(super) fn view(&self) -> String {
        let panes = self.panes.iter().take(self.open).rev();
        let mut named = panes.filter_map(|pane| {
            // The help shows no data, so the view is that of the pane below it.
            let word = pane.word().filter(|word| *word != "help")?;
            Some((word, pane.list().filter.text()))
        });
        let (word, filter) = named.next().unwrap_or(("home", ""));
        self.scope.view(word, filter)
    }

    /// Whether a step is under way, or a deletion is not terminal: it may also be paused or await approval.
    pub(super) fn has_work(&self) -> bool {
        let Snapshot {
            steps, deletions, ..
        } = &*self.snapshot;
        steps.live() > 0 || deletions.iter().any(|it| !it.state.is_terminal())
    }

    /// Number of commands that were confirmed together and have not been sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.bulks.iter().map(BulkCommands::unsent).sum()
    }

    /// Quits, or asks first what happens to unsent commands and to the work of an engine in this process.
    pub(super) fn quit(&mut self) {
        if self.unsent() > 0 {
            self.prompt = Some(Prompt::Question(Asked::Unsent));
            return;
        }
        if self.options.engine == EngineMode::Embedded && self.has_work() {
            self.prompt = Some(Prompt::Question(Asked::Quit));
        } else {
            self.outbox.push(Effect::Quit(Exit::Quit));
        }
    }

    /// Number of rows of the pane on top that fit on the screen; 1 if the screen is too small.
    pub(super) fn table_rows(&self) -> usize {
        self.table_area()
            .map_or(1, |(_, table)| usize::from(table.height.saturating_sub(1)))
    }

    /// Returns the row of the pane on top that is on this line of the screen, if any.
    pub(super) fn row_at(&self, line: u16) -> Option<usize> {
        let (pane, table) = self.table_area()?;
        // The headings take the first line.
        let below = line.checked_sub(table.y + 1)?;
        let row = pane.list().top + usize::from(below);
        (line < table.bottom() && row < pane.len()).then_some(row)
    }

    fn table_area(&self) -> Option<(&dyn Pane, Rect)> {
        let pane = self.top()?;
        Some((pane, layout::of(pane, &self.look(), self.size)?.table))
    }

    /// Adjusts the cursor and its window to the current rows and size.
    pub(super) fn fit_cursor(&mut self) {
        let rows = self.table_rows();
        let recenter = self.options.low_bandwidth;
        if let Some(pane) = self.open_panes().last() {
            let len = pane.len();
            pane.list_mut().fit_window(len, rows, recenter);
        }
    }
}

/// Adds an item at the end, and drops the first one if there are more than `max`.
fn push_bounded<T>(items: &mut VecDeque<T>, item: T, max: usize) {
    items.push_back(item);
    if items.len() > max {
        items.pop_front();
    }
}
