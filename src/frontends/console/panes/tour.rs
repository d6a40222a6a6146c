//! A tour of the practice cloud: what to try, how, and what is done already.

use crate::control::query;
use crate::domain::model::{Deletion, DeletionState};
use crate::frontends::console::arrived::Arrived;
use std::borrow::Cow;

use super::super::feed::{Feed, Fetch, PAGE_ROWS};
use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone};
use super::{Column, Context, Pane};

/// One thing to try. It is done once a deletion of this network of the practice cloud fulfils `done`.
struct Station {
    title: &'static str,
    network: &'static str,
    done: fn(&Deletion) -> bool,
    how: fn(&RenderContext) -> Vec<String>,
}

const STATIONS: &[Station] = &[
    Station {
        title: "plan a deletion, and start it",
        network: "web",
        done: |deletion| deletion.counts.total > 0,
        how: |look| {
            let (plan, confirm) = (look.key(Action::PlanDeletion), look.key(Action::Confirm));
            vec![
                format!("Type :network and enter, go to web, press {plan}."),
                "All that must go is listed in its order; nothing has been sent yet.".to_owned(),
                format!("{confirm}, type web, {confirm}: now it goes."),
            ]
        },
    },
    Station {
        title: "watch it go, and see what ran when",
        network: "web",
        done: |deletion| deletion.state == DeletionState::Gone,
        how: |look| {
            vec![
                format!(
                    "Type :deletions, {} on web: its tree.",
                    look.key(Action::Open)
                ),
                format!(
                    "{} draws it over time, with what each part waited for.",
                    look.key(Action::Chart)
                ),
                "A step is gone when the cloud shows it no more, not when it said yes.".to_owned(),
            ]
        },
    },
    Station {
        title: "free one that is blocked",
        network: "legacy",
        done: |deletion| deletion.state == DeletionState::Gone,
        how: |look| {
            vec![
                "Delete legacy likewise. Its router's interface is not freed at once.".to_owned(),
                format!(
                    ":retrying says when it is retried, {} there what the cloud answered.",
                    look.key(Action::Open)
                ),
                format!(
                    "{} tries at once; here the fourth one frees it.",
                    look.key(Action::Retry)
                ),
            ]
        },
    },
    Station {
        title: "explain one that is stuck",
        network: "vault",
        done: |deletion| deletion.counts.stuck + deletion.counts.purged > 0,
        how: |look| {
            vec![
                "Delete vault. The cloud forbids it one of the ports, so trying again is no use."
                    .to_owned(),
                format!(
                    ":stuck names it; {} shows the raw answer and every attempt,",
                    look.key(Action::Open)
                ),
                format!(
                    "{} explains it to the root of what holds it.",
                    look.key(Action::Explain)
                ),
            ]
        },
    },
    Station {
        title: "take the last rung of the ladder: abandon it",
        network: "vault",
        done: |deletion| deletion.counts.purged > 0,
        how: |look| {
            vec![
                format!(
                    "In :stuck, {} on the port shows what else can be done, and does nothing.",
                    look.key(Action::Ladder)
                ),
                format!(
                    "{} on forget asks for the deletion's short id: gone abandons it then.",
                    look.key(Action::Confirm)
                ),
                ":orphans keeps what was left behind, and whether it still exists.".to_owned(),
            ]
        },
    },
];

pub(crate) struct TourPane {
    list: List,
    deletions: Feed<Deletion>,
    visible: Vec<usize>,
}

impl TourPane {
    pub(crate) fn new() -> Self {
        Self {
            list: List::default(),
            deletions: Feed::new(PAGE_ROWS),
            visible: (0..STATIONS.len()).collect(),
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        if let Fetch::Page(cursor) = self.deletions.due(context) {
            self.page(cursor, context);
        }
    }

    fn page(&mut self, cursor: Option<String>, context: &mut Context<'_>) {
        let is_first = cursor.is_none();
        let deletions = query::Deletions {
            cursor,
            limit: PAGE_ROWS,
            ..query::Deletions::default()
        };
        self.deletions.ask(deletions, is_first, context);
    }

    fn is_done(&self, station: &Station) -> bool {
        self.deletions.rows.iter().any(|deletion| {
            let mut names = deletion.targets.iter().map(|target| &target.name);
            names.any(|name| name == station.network) && (station.done)(deletion)
        })
    }

    fn station(&self, row: usize) -> Option<&'static Station> {
        STATIONS.get(*self.visible.get(row)?)
    }
}

impl Pane for TourPane {
    fn scope(&self) -> Scope {
        Scope::Reading
    }
    fn word(&self) -> Option<&str> {
        Some("tour")
    }
    fn title(&self, _look: &RenderContext) -> String {
        let done = STATIONS
            .iter()
            .filter(|station| self.is_done(station))
            .count();
        format!("tour of the practice cloud: {done} of {}", STATIONS.len())
    }
    fn list(&self) -> &List {
        &self.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
    fn len(&self) -> usize {
        self.visible.len()
    }
    fn is_busy(&self) -> bool {
        self.deletions.is_waiting()
    }
    fn columns(&self, _look: &RenderContext) -> Vec<Column> {
        vec![Column::fixed("DONE", 4), Column::flex("WHAT TO TRY", 1)]
    }
    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(station) = self.station(row) else {
            return Vec::new();
        };
        let done = match self.is_done(station) {
            true => Cell::new(look.pick("✓", "+"), Tone::Good),
            false => Cell::dim(look.none()),
        };
        vec![done, Cell::plain(station.title)]
    }
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let mut lines = vec![Cell::dim(
            "Nothing here is real: it ends with this console. :tour comes back to this list.",
        )];
        lines.extend(look.errors(&self.deletions.error));
        lines
    }
    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        let station = self.station(self.list.cursor);
        let lines = station.map_or_else(Vec::new, |station| (station.how)(look));
        lines.into_iter().map(Cell::plain).collect()
    }
    fn detail_rows(&self) -> u16 {
        5
    }
    fn noun(&self) -> Cow<'static, str> {
        "station".into()
    }
    fn nothing(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain("The tour has no stations here.")]
    }
    fn filter_changed(&mut self) {
        let filter = &self.list.filter;
        let fits = |at: &usize| {
            let station = &STATIONS[*at];
            filter.fits_texts(&[station.title, station.network])
        };
        self.visible = (0..STATIONS.len()).filter(fits).collect();
    }
    fn open(&mut self, context: &mut Context<'_>) {
        self.deletions.invalidate();
        self.ask(context);
    }
    fn wake(&mut self, moved: bool, context: &mut Context<'_>) {
        if moved {
            self.deletions.invalidate();
        }
        self.ask(context);
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) -> bool {
        let first = !self.deletions.loaded;
        let received = self
            .deletions
            .receive::<query::Deletions>(arrived, context, |page| page);
        match received {
            None => return false,
            Some(Fetch::Page(next)) => self.page(next, context),
            Some(Fetch::Nothing) => {}
        }
        if first {
            let open = |row: &usize| self.station(*row).is_some_and(|it| !self.is_done(it));
            self.list.cursor = (0..self.visible.len()).find(open).unwrap_or_default();
        }
        true
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        match (action, self.station(self.list.cursor)) {
            (Action::Refresh, _) => self.open(context),
            (Action::Copy, Some(station)) => context.copy(station.title.to_owned()),
            _ => {}
        }
    }
}
