//! Everything that the console knows and shows, as plain data; tied to no terminal.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::control::{KindInfo, Query, SiteState, SiteStatus, Snapshot, query};
use crate::domain::model::Site;
use crate::system::config::Theme;

use super::command::{self, Place};
use super::event::Effect;
use super::keys::Scope;
use super::look::{RenderContext, Tone};
use super::notice::Notice;
use super::panes::browse::BrowsePane;
use super::panes::deletions::DeletionsPane;
use super::panes::open::{Around, open};
use super::panes::{Context, Pane, PaneRequest};
use super::prompt::Prompt;
use super::replay_cursor::ReplayCursor;
use super::{ConsoleOptions, EngineMode, Exit, layout};
use ratatui::layout::Rect;

/// Deeper than anyone walks; the oldest pane falls out.
const STACK_MAX: usize = 32;
/// What was typed after `:` that can be found again.
const WORDS_MAX: usize = 100;
/// Samples of the rate that the header shows.
const RATES_MAX: usize = 12;
/// Messages of this console that `:events` still shows.
const NOTICES_MAX: usize = 500;

/// Events that are counted at most at one moment of a replay.
const TOGETHER_MAX: i64 = 100;

/// The whole console. Changed only by [`super::update`], drawn only by [`super::render`].
pub struct State {
    pub(super) options: ConsoleOptions,
    pub(super) size: (u16, u16),
    pub(super) now: DateTime<Utc>,
    pub(super) snapshot: Arc<Snapshot>,
    /// Steps a second, a sample a second, the newest last.
    pub(super) rates: VecDeque<(DateTime<Utc>, f64)>,
    pub(super) engine_gone: bool,
    pub(super) kinds: Vec<KindInfo>,
    pub(super) kinds_ticket: Option<u64>,
    /// The names of projects by id, once a filter asked for one; shared with what is being filtered.
    pub(super) projects: Arc<BTreeMap<String, String>>,
    pub(super) projects_tickets: BTreeSet<u64>,
    /// Clouds whose projects were asked for, by name.
    projects_of: BTreeSet<String>,
    /// The last is on top.
    pub(super) panes: Vec<Box<dyn Pane>>,
    /// Those that were left, the last of them last, until another one is opened.
    left: Vec<Box<dyn Pane>>,
    /// What was typed after `:`, the newest last; and how far back a person looks.
    words: VecDeque<String>,
    words_back: usize,
    pub(super) prompt: Option<Prompt>,
    /// The newest notice, until the next key.
    pub(super) message: Option<Notice>,
    pub(super) notices: VecDeque<Notice>,
    /// Something that guards a deletion is not on the screen yet: no key counts before it is.
    pub(super) guarded: bool,
    pub(super) tickets: u64,
    /// Commands under way, and what they are for a person.
    pub(super) submitted: HashMap<u64, String>,
    /// The last event that was followed.
    pub(super) followed: Option<i64>,
    /// The question what happens next that is under way.
    pub(super) following: Option<u64>,
    /// Counts ticks, for the sign that something is under way.
    pub(super) ticks: usize,
    /// The word after `:` to start with, until the kinds are known.
    pub(super) start: Option<String>,
    pub(super) dirty: bool,
    /// Goes through the time of a replay.
    pub(super) replay_cursor: ReplayCursor,
}

impl State {
    /// A console before its first frame, and what it wants to know at once. `size` is columns, rows.
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
            left: Vec::new(),
            words: VecDeque::new(),
            words_back: 0,
            prompt: None,
            message: None,
            notices: VecDeque::new(),
            guarded: false,
            tickets: 0,
            submitted: HashMap::new(),
            followed: None,
            following: None,
            ticks: 0,
            start,
            dirty: true,
            replay_cursor: ReplayCursor::default(),
        };
        let mut effects = Vec::new();
        state.ask_kinds(&mut effects);
        state.push(Box::new(DeletionsPane::new()), &mut effects);
        if state.options.tour {
            state.say(Tone::Strong, ":tour shows you round this practice cloud");
        }
        if state.replays() {
            state.ask_what_happened(&mut effects);
        }
        state.settle();
        (state, effects)
    }

    pub(super) fn ask_kinds(&mut self, effects: &mut Vec<Effect>) {
        if self.kinds_ticket.is_none() && self.kinds.is_empty() {
            self.tickets += 1;
            self.kinds_ticket = Some(self.tickets);
            effects.push(Effect::Query {
                ticket: self.tickets,
                query: query::Kinds {}.into(),
            });
        }
    }

    /// Once for each cloud, at one of its sites, when a filter is by project.
    pub(super) fn ask_projects(&mut self, effects: &mut Vec<Effect>) {
        let asks = |pane: &dyn Pane| pane.list().filter.asks_for_projects();
        if !self.top().is_some_and(asks) {
            return;
        }
        let answers = |status: &&SiteStatus| status.state == SiteState::Reachable;
        for status in self.snapshot.sites.iter().filter(answers) {
            if let Site::Region { cloud, .. } = &status.site
                && self.projects_of.insert(cloud.to_string())
            {
                self.tickets += 1;
                self.projects_tickets.insert(self.tickets);
                effects.push(Effect::Query {
                    ticket: self.tickets,
                    query: Query::from(query::Resources {
                        kind: "project".to_owned(),
                        site: Some(status.site.clone()),
                    }),
                });
            }
        }
    }

    pub(super) fn sample_rate(&mut self) {
        let last = self.rates.back();
        if last.is_none_or(|(at, _)| self.now - *at >= TimeDelta::seconds(1)) {
            self.rates
                .push_back((self.now, self.snapshot.rate_per_second));
            if self.rates.len() > RATES_MAX {
                self.rates.pop_front();
            }
        }
    }

    /// Something is under way that will change the screen: the loop sends ticks. What is past does not
    /// change by itself.
    pub fn wants_tick(&self) -> bool {
        let is_live = self.top().is_some_and(Pane::is_live);
        self.is_waiting() || (is_live && !self.replays())
    }

    pub(super) fn replays(&self) -> bool {
        self.options.replay.is_some()
    }

    /// The time that a replay shows.
    pub(super) fn shown_at(&self) -> Option<DateTime<Utc>> {
        let replay = self.options.replay.as_ref()?;
        Some(self.snapshot.at.unwrap_or(replay.last))
    }

    /// Asks for the last events before the time that a replay shows.
    pub(super) fn ask_what_happened(&mut self, effects: &mut Vec<Effect>) {
        self.tickets += 1;
        self.replay_cursor.asked = Some(self.tickets);
        effects.push(Effect::Query {
            ticket: self.tickets,
            query: Query::from(query::Timeline {
                after: (self.snapshot.last_event - TOGETHER_MAX).max(0),
                ..query::Timeline::default()
            }),
        });
    }

    /// From when ages are counted.
    pub(super) fn told_at(&self) -> DateTime<Utc> {
        self.shown_at().unwrap_or(self.now)
    }

    pub(super) fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    /// What was typed means nothing.
    pub(super) fn complain(&mut self, why: String) {
        self.say(Tone::Warn, why);
    }

    /// For an answer of the engine's.
    pub(super) fn is_waiting(&self) -> bool {
        self.kinds_ticket.is_some()
            || !self.projects_tickets.is_empty()
            || !self.submitted.is_empty()
            || self.replay_cursor.is_waiting()
            || self.panes.last().is_some_and(|pane| pane.is_busy())
    }

    /// No key counts before [`super::Event::GuardPainted`]: a screen that guards a deletion is new.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// Whether something visible may have changed since this was last asked.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) fn size(&self) -> (u16, u16) {
        self.size
    }

    pub(super) fn look(&self) -> RenderContext<'_> {
        RenderContext {
            keys: &self.options.keys,
            // Signs that are not ASCII take three bytes, and their place is set again after each.
            ascii: self.options.ascii || self.options.low_bandwidth,
            sparing: self.options.low_bandwidth,
            theme: match self.options.no_color {
                true => Theme::Mono,
                false => self.options.theme,
            },
            width: self.size.0,
            now: self.told_at(),
            replays: self.replays(),
            many_sites: self.snapshot.sites.len() > 1,
        }
    }

    pub(super) fn top(&self) -> Option<&dyn Pane> {
        self.panes.last().map(|pane| &**pane)
    }

    pub(super) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        let notice = Notice {
            at: self.now,
            tone,
            text: text.into(),
        };
        self.message = Some(notice.clone());
        self.notices.push_back(notice);
        if self.notices.len() > NOTICES_MAX {
            self.notices.pop_front();
        }
        self.dirty = true;
    }

    /// Lets the pane on top work, and then does what it wished for.
    pub(super) fn with_top<T>(
        &mut self,
        effects: &mut Vec<Effect>,
        work: impl FnOnce(&mut dyn Pane, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let at = self.panes.len().checked_sub(1)?;
        self.with_pane(at, effects, work)
    }

    /// How many there are, with those that were left: their answers are still theirs.
    pub(super) fn all_panes(&self) -> usize {
        self.panes.len() + self.left.len()
    }

    pub(super) fn with_pane<T>(
        &mut self,
        at: usize,
        effects: &mut Vec<Effect>,
        work: impl FnOnce(&mut dyn Pane, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let mut requests = Vec::new();
        let (told_at, replays) = (self.told_at(), self.replays());
        let pane = pane_at(&mut self.panes, &mut self.left, at)?;
        pane.list_mut().filter.at(told_at);
        let mut context = Context {
            keys: &self.options.keys,
            snapshot: &self.snapshot,
            now: self.now,
            replays,
            tickets: &mut self.tickets,
            effects,
            requests: &mut requests,
        };
        let result = work(pane.as_mut(), &mut context);
        for request in requests {
            self.grant(request, at, effects);
        }
        Some(result)
    }

    fn grant(&mut self, request: PaneRequest, asker: usize, effects: &mut Vec<Effect>) {
        let is_top = asker + 1 == self.panes.len();
        match request {
            PaneRequest::Push(route) => self.push(open(route), effects),
            PaneRequest::Replace(route) => {
                let pane = open(route);
                if is_top {
                    self.panes.truncate(asker);
                    self.push(pane, effects);
                } else if let Some(place) = pane_at(&mut self.panes, &mut self.left, asker) {
                    // It is opened when a person comes back to it.
                    *place = pane;
                }
            }
            PaneRequest::Say(tone, text) => self.say(tone, text),
            // A question pops up only where its pane is what the person looks at.
            PaneRequest::Ask(confirm) if is_top => {
                self.prompt = Some(Prompt::Confirm(confirm));
                self.guarded = true;
            }
            PaneRequest::Ask(_) => {}
            PaneRequest::Submit { what, command } => {
                self.tickets += 1;
                self.submitted.insert(self.tickets, what);
                effects.push(Effect::Submit {
                    ticket: self.tickets,
                    command,
                    reason: String::new(),
                });
            }
            PaneRequest::Guard => self.guarded |= is_top,
        }
    }

    pub(super) fn push(&mut self, pane: Box<dyn Pane>, effects: &mut Vec<Effect>) {
        self.left.clear();
        self.show(pane, effects);
    }

    fn show(&mut self, pane: Box<dyn Pane>, effects: &mut Vec<Effect>) {
        self.panes.push(pane);
        if self.panes.len() > STACK_MAX {
            self.panes.remove(0);
        }
        self.with_top(effects, |pane, context| pane.open(context));
        self.follow(effects);
    }

    /// Back to the pane below; the first stays.
    pub(super) fn back(&mut self, effects: &mut Vec<Effect>) {
        if self.panes.len() > 1 {
            self.left.extend(self.panes.pop());
            self.with_top(effects, |pane, context| pane.open(context));
            self.follow(effects);
        }
    }

    /// To the pane that was left last. It may be a plan: no key counts before it is on the screen.
    pub(super) fn next(&mut self, effects: &mut Vec<Effect>) {
        if let Some(pane) = self.left.pop() {
            self.guarded = true;
            self.show(pane, effects);
        }
    }

    pub(super) fn remember(&mut self, word: &str) {
        self.words.retain(|known| known != word);
        self.words.push_back(word.to_owned());
        if self.words.len() > WORDS_MAX {
            self.words.pop_front();
        }
        self.words_back = 0;
    }

    /// A new line is begun.
    pub(super) fn forget_recalled(&mut self) {
        self.words_back = 0;
    }

    /// One further back, or one newer; empty where it ends.
    pub(super) fn recall(&mut self, back: bool) -> String {
        self.words_back = match back {
            true => (self.words_back + 1).min(self.words.len()),
            false => self.words_back.saturating_sub(1),
        };
        let at = self.words.len() - self.words_back;
        self.words.get(at).cloned().unwrap_or_default()
    }

    /// Asks for what happens next, while the pane on top lives on it.
    pub(super) fn follow(&mut self, effects: &mut Vec<Effect>) {
        let follows = self.top().is_some_and(Pane::follows) && !self.replays();
        if self.following.is_some() || !follows {
            return;
        }
        // A little of what went before is worth seeing.
        let after = self
            .followed
            .unwrap_or_else(|| (self.snapshot.last_event - 200).max(0));
        self.tickets += 1;
        self.following = Some(self.tickets);
        effects.push(Effect::Follow {
            ticket: self.tickets,
            after,
        });
    }

    fn around(&self) -> Around<'_> {
        Around {
            snapshot: &self.snapshot,
            keys: &self.options.keys,
            kinds: &self.kinds,
            scope: self.top().map_or(Scope::Everywhere, Pane::scope),
            notices: &self.notices,
            replays: self.replays(),
            practices: self.options.tour,
        }
    }

    /// Goes to what was typed after `:`.
    pub(super) fn go(&mut self, word: &str, effects: &mut Vec<Effect>) {
        let pane: Box<dyn Pane> = match command::place(word, &self.kinds) {
            Place::Kind(kind) => Box::new(BrowsePane::new(kind)),
            Place::Quit => return self.quit(effects),
            Place::Pane(named) => match (named.open)(&self.around()) {
                Ok(pane) => pane,
                Err(why) => return self.say(Tone::Warn, why),
            },
            Place::Unknown(text) => {
                self.say(Tone::Warn, text);
                return self.ask_kinds(effects);
            }
        };
        if pane.follows() {
            // The pane begins empty: events are read anew, from a little before.
            self.followed = None;
            self.following = None;
        }
        if self.top().and_then(Pane::word) == pane.word() {
            self.panes.pop();
        }
        self.push(pane, effects);
    }

    /// Leaves, or asks what becomes of the work of an engine that lives in this process.
    pub(super) fn quit(&mut self, effects: &mut Vec<Effect>) {
        let has_work = self.snapshot.steps.live() > 0
            || self
                .snapshot
                .deletions
                .iter()
                .any(|d| !d.state.is_terminal());
        if self.options.engine == EngineMode::Embedded && has_work {
            self.prompt = Some(Prompt::Quit);
        } else {
            effects.push(Effect::Quit(Exit::Quit));
        }
    }

    /// How many rows of the pane on top are on the screen.
    pub(super) fn table_rows(&self) -> usize {
        self.table_area()
            .map_or(1, |(_, table)| usize::from(table.height.saturating_sub(1)))
    }

    /// Which row of the pane on top stands on this line of the screen, if one does.
    pub(super) fn row_at(&self, line: u16) -> Option<usize> {
        let (pane, table) = self.table_area()?;
        // The headings take the first.
        let below = line.checked_sub(table.y + 1)?;
        let row = pane.list().top + usize::from(below);
        (line < table.bottom() && row < pane.len()).then_some(row)
    }

    fn table_area(&self) -> Option<(&dyn Pane, Rect)> {
        let pane = self.top()?;
        Some((pane, layout::table_area(pane, &self.look(), self.size)?))
    }

    /// Puts the cursor and its window right for the rows and the size that there are now.
    pub(super) fn settle(&mut self) {
        let rows = self.table_rows();
        if let Some(pane) = self.panes.last_mut() {
            let len = pane.len();
            let recenter = self.options.low_bandwidth;
            pane.list_mut().settle(len, rows, recenter);
        }
    }
}

/// Of those that are open, and behind them those that were left.
fn pane_at<'p>(
    open: &'p mut [Box<dyn Pane>],
    left: &'p mut [Box<dyn Pane>],
    at: usize,
) -> Option<&'p mut Box<dyn Pane>> {
    match at.checked_sub(open.len()) {
        None => open.get_mut(at),
        Some(at) => left.get_mut(at),
    }
}
