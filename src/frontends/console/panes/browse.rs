//! Resources of one kind, at all sites.

use crate::frontends::console::arrived::Arrived;
use crate::frontends::console::route::{Route, Subject};
use chrono::{DateTime, TimeDelta, Utc};
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

use crate::control::{KindInfo, SiteListing, query};
use crate::domain::filter::Facts;
use crate::domain::model::{Resource, Site, short_id};

use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, Tone, WIDE, at_path, or_none};
use super::emptiness::Load;
use super::{Column, Context, Pane, Width};
use crate::present::{count, kind_words, name_or_id};

/// Shortest time between two listings, which cost calls to the clouds; resources that go cause a new one.
const REFRESH_SECONDS_MIN: i64 = 5;
/// Maximum number of rows that are measured for column widths; more would change little.
const MEASURED_ROWS_MAX: usize = 1_000;
const COLUMN_WIDTH_MAX: usize = 40;

pub(crate) struct BrowsePane {
    kind: KindInfo,
    list: List,
    listings: Vec<SiteListing>,
    /// The visible rows: the index of the listing, and of the row in it.
    visible: Vec<(u32, u32)>,
    widths: Vec<u16>,
    order: Option<Order>,
    ticket: Option<u64>,
    asked_at: Option<DateTime<Utc>>,
    loaded: bool,
    error: Option<String>,
    gone_before: u64,
    /// Whether a resource has gone since the last listing.
    stale: bool,
}

/// The column that the rows are sorted by.
#[derive(Clone, Copy)]
struct Order {
    column: usize,
    backwards: bool,
}

impl BrowsePane {
    pub(crate) fn new(kind: KindInfo) -> Self {
        Self {
            kind,
            list: List::default(),
            listings: Vec::new(),
            visible: Vec::new(),
            widths: Vec::new(),
            order: None,
            ticket: None,
            asked_at: None,
            loaded: false,
            error: None,
            gone_before: 0,
            stale: false,
        }
    }

    fn ask(&mut self, context: &mut Context<'_>) {
        if self.ticket.is_none() {
            self.stale = false;
            self.asked_at = Some(context.now);
            self.gone_before = context.snapshot.steps.gone;
            self.ticket = Some(context.ask(query::Resources {
                kind: self.kind.name.as_str().to_owned(),
                site: None,
            }));
        }
    }

    fn row(&self, row: usize) -> Option<&Resource> {
        let (listing, index) = *self.visible.get(row)?;
        self.listings
            .get(listing as usize)?
            .rows
            .get(index as usize)
    }

    fn fits(&self, row: &Resource) -> bool {
        let cells = self.kind.columns.iter().map(|(_, path)| field(row, path));
        let cells: Vec<String> = cells.collect();
        let texts = [row.name.as_str(), &row.key.id].into_iter();
        let texts: Vec<&str> = texts.chain(cells.iter().map(String::as_str)).collect();
        let state = ["status", "provisioning_status"].map(|path| field(row, path));
        let site = row.key.site.to_string();
        self.list.filter.fits(&Facts {
            texts: &texts,
            state: state.iter().find(|it| !it.is_empty()).map_or("", |it| it),
            kind: row.key.kind.as_str(),
            site: &site,
            project: &row.project_id,
            since: field(row, "created_at").parse().ok(),
        })
    }

    fn refilter(&mut self) {
        let held = self.row(self.list.cursor).map(|r| r.key.clone());
        self.visible.clear();
        for (l, listing) in (0u32..).zip(&self.listings) {
            for (r, row) in (0u32..).zip(&listing.rows) {
                if self.list.filter.is_empty() || self.fits(row) {
                    self.visible.push((l, r));
                }
            }
        }
        self.sort();
        let listings = &self.listings;
        let keys = self
            .visible
            .iter()
            .map(|(l, r)| listings[*l as usize].rows[*r as usize].key.clone());
        self.list.hold(held, keys);
    }

    fn sort(&mut self) {
        let Some(order) = self.order else { return };
        let path = self.kind.columns.get(order.column).map(|(_, path)| path);
        let Some(path) = path else { return };
        let listings = &self.listings;
        self.visible.sort_by_cached_key(|(l, r)| {
            Rank::of(&field(&listings[*l as usize].rows[*r as usize], path))
        });
        if order.backwards {
            self.visible.reverse();
        }
    }

    /// Sorts by the next column; after the last one, in the order of the listing.
    fn sort_by_next(&mut self) {
        let backwards = self.order.is_some_and(|order| order.backwards);
        let column = self.order.map_or(0, |order| order.column + 1);
        let is_there = column < self.kind.columns.len();
        self.order = is_there.then_some(Order { column, backwards });
        self.refilter();
    }

    fn sort_backwards(&mut self) {
        let order = self.order.get_or_insert(Order {
            column: 0,
            backwards: false,
        });
        order.backwards = !order.backwards;
        self.refilter();
    }

    /// Removes the marks of resources that are no longer listed: they are gone. If a site could not be
    /// listed, nothing is known, and all marks stay.
    fn forget_gone_marks(&mut self) {
        if self.list.marks.is_empty() || self.listings.iter().any(|l| l.error.is_some()) {
            return;
        }
        let rows = self.listings.iter().flat_map(|listing| &listing.rows);
        let listed: std::collections::HashSet<String> = rows.map(|r| r.key.to_string()).collect();
        self.list.marks.retain(|mark| listed.contains(mark));
    }

    fn measure(&mut self) {
        let rows = || {
            let rows = self.listings.iter().flat_map(|listing| &listing.rows);
            rows.take(MEASURED_ROWS_MAX)
        };
        self.widths = self
            .kind
            .columns
            .iter()
            .map(|(heading, path)| {
                let widest = rows().map(|row| field(row, path).width()).max();
                let width = widest.unwrap_or(0).max(heading.width());
                u16::try_from(width.clamp(2, COLUMN_WIDTH_MAX)).unwrap_or(0)
            })
            .collect();
    }

    fn plan(&mut self, context: &mut Context<'_>) {
        let marked: Vec<Subject> = self
            .listings
            .iter()
            .flat_map(|listing| &listing.rows)
            .filter(|row| self.list.marks.contains(&row.key.to_string()))
            .map(Subject::of)
            .collect();
        let under_cursor = self.row(self.list.cursor).map(Subject::of);
        let subjects = if self.list.marks.is_empty() {
            under_cursor.into_iter().collect()
        } else {
            marked
        };
        if subjects.is_empty() && !self.list.marks.is_empty() {
            let again = context.keys.key(Action::Refresh);
            context.say(
                Tone::Warn,
                format!("what is marked is not listed now; {again} asks again"),
            );
            return;
        }
        if subjects.is_empty() {
            context.say(Tone::Warn, "there is no row to plan a deletion of");
            return;
        }
        // The engine enforces this (P5); the check here only saves the person a detour.
        if let Some(place) = read_only(context, subjects.iter().map(|s| &s.key.site)) {
            context.say(
                Tone::Warn,
                format!("{place} is read-only: nothing can be deleted"),
            );
            return;
        }
        context.push(Route::Plan {
            subjects,
            cascade: self.kind.has_dependents,
        });
    }
}

/// Sort key: numbers by size, then texts regardless of case.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number(i64),
    Text(String),
}

impl Rank {
    fn of(text: &str) -> Self {
        match text.parse() {
            Ok(number) => Self::Number(number),
            Err(_) => Self::Text(text.to_lowercase()),
        }
    }
}

/// Returns the name of a read-only site among these, or of the engine if all of it is read-only.
fn read_only<'a>(
    context: &Context<'_>,
    mut sites: impl Iterator<Item = &'a Site>,
) -> Option<String> {
    if context.snapshot.engine.read_only {
        return Some("this engine".to_owned());
    }
    let known = &context.snapshot.sites;
    sites
        .find(|site| known.iter().any(|s| s.site == **site && s.read_only))
        .map(ToString::to_string)
}

/// Whether a column shows ids. Ids differ at their end, which a narrow column shows.
fn is_id(path: &str) -> bool {
    path == "id" || path.ends_with("_id")
}

/// Returns a column's text, from the listed row or from the fields that every resource has.
fn field(row: &Resource, path: &str) -> String {
    let text = at_path(&row.attributes, path);
    if !text.is_empty() {
        return text;
    }
    match path {
        "id" => row.key.id.clone(),
        "name" => row.name.clone(),
        "project_id" | "tenant_id" => row.project_id.clone(),
        "tags" => row.tags.join(", "),
        _ => text,
    }
}

impl Pane for BrowsePane {
    fn scope(&self) -> Scope {
        Scope::Browse
    }
    fn word(&self) -> Option<&str> {
        Some(self.kind.name.as_str())
    }
    fn title(&self, look: &RenderContext) -> String {
        let total: usize = self.listings.iter().map(|l| l.rows.len()).sum();
        let mut title = kind_words(&self.kind.name);
        if self.loaded {
            title.push(' ');
            title.push_str(&total.to_string());
        }
        if !self.list.marks.is_empty() {
            title.push_str(look.dot());
            title.push_str(&format!("{} marked", self.list.marks.len()));
        }
        title
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
        self.ticket.is_some() || self.stale
    }

    fn columns(&self, look: &RenderContext) -> Vec<Column> {
        let mut columns: Vec<Column> = self
            .kind
            .columns
            .iter()
            .enumerate()
            .map(|(i, (heading, path))| {
                let sign = match self.order {
                    Some(order) if order.column == i && order.backwards => look.pick("▼", "v"),
                    Some(order) if order.column == i => look.pick("▲", "^"),
                    _ => "",
                };
                let wide = self.widths.get(i).copied().unwrap_or(10);
                let wide = wide + u16::from(!sign.is_empty());
                // The name takes the width that is left; ids stay whole if there is room.
                let width = if path == "name" {
                    Width::Flex(1)
                } else if is_id(path) && look.width < WIDE {
                    Width::Fixed(wide.min(8))
                } else {
                    Width::Fixed(wide.min(look.width / 2))
                };
                Column {
                    heading: format!("{}{sign}", heading.to_uppercase()).into(),
                    width,
                    right: false,
                    tail: is_id(path),
                    from_width: 0,
                }
            })
            .collect();
        if !columns.iter().any(|c| matches!(c.width, Width::Flex(_)))
            && let Some(last) = columns.last_mut()
        {
            last.width = Width::Flex(1);
        }
        let site = if look.many_sites { 0 } else { u16::MAX };
        columns.push(Column::fixed("SITE", 18).from(site));
        columns
    }

    fn cells(&self, row: usize, look: &RenderContext) -> Vec<Cell> {
        let Some(row) = self.row(row) else {
            return Vec::new();
        };
        let columns = self.kind.columns.iter();
        columns
            .map(|(_, path)| {
                let text = field(row, path);
                if is_id(path) && look.width < WIDE {
                    return Cell::plain(short_id(&text));
                }
                Cell::plain(text)
            })
            .chain([Cell::dim(row.key.site.to_string())])
            .collect()
    }

    fn is_marked(&self, row: usize) -> bool {
        !self.list.marks.is_empty()
            && self
                .row(row)
                .is_some_and(|row| self.list.marks.contains(&row.key.to_string()))
    }

    /// Names each site that could not be listed, so that it does not look empty.
    fn head(&self, look: &RenderContext) -> Vec<Cell> {
        let glyph = look.pick("✖", "x");
        let failed = self.listings.iter().filter_map(|listing| {
            let error = listing.error.as_ref()?;
            let text = format!("{glyph} {} could not be listed: {error}", listing.site);
            Some(Cell::new(text, Tone::Bad))
        });
        let whole = self.error.iter();
        failed
            .chain(whole.map(|error| Cell::new(format!("{glyph} {error}"), Tone::Bad)))
            .collect()
    }

    fn detail(&self, look: &RenderContext) -> Vec<Cell> {
        self.row(self.list.cursor).map_or_else(Vec::new, |row| {
            let name = name_or_id(&row.name, &row.key.id);
            let mut facts = vec![
                format!("{} {name} at {}", kind_words(&row.key.kind), row.key.site),
                format!("project {}", or_none(&row.project_id, look)),
            ];
            if !row.tags.is_empty() {
                facts.push(format!("tags {}", row.tags.join(", ")));
            }
            vec![
                Cell::plain(facts.join(look.dot())),
                Cell::dim(format!("id {}", row.key.id)),
            ]
        })
    }

    fn load(&self) -> Load {
        // A site that could not be listed may have resources.
        let any_failed = self.listings.iter().any(|listing| listing.error.is_some());
        let has_rows = self.listings.iter().any(|listing| !listing.rows.is_empty());
        match (self.loaded, self.error.is_some() || any_failed) {
            (false, _) => Load::Asking,
            (true, _) if has_rows => Load::Answered,
            (true, true) => Load::Failed,
            (true, false) => Load::Empty,
        }
    }
    fn noun(&self) -> Cow<'static, str> {
        kind_words(&self.kind.name).into()
    }
    fn loading(&self, _look: &RenderContext) -> Vec<Cell> {
        let kind = kind_words(&self.kind.name);
        vec![Cell::dim(format!("Listing every {kind} at every site…"))]
    }
    fn failed(&self, look: &RenderContext) -> Vec<Cell> {
        if look.replays {
            return self.nothing(look);
        }
        let again = look.key(Action::Refresh);
        let advice = format!("{again} asks again, :sites shows what is reachable.");
        vec![
            Cell::plain("Not every site could be listed; the reason is above."),
            Cell::dim(advice),
        ]
    }
    fn nothing(&self, look: &RenderContext) -> Vec<Cell> {
        let kind = kind_words(&self.kind.name);
        let again = look.key(Action::Refresh);
        if look.replays {
            return vec![
                Cell::plain(format!("A replay asks no cloud: it lists no {kind}.")),
                Cell::dim(":deletions and :stuck show what the ledger knew."),
            ];
        }
        vec![
            Cell::plain(format!("There is no {kind} that you may see here.")),
            Cell::dim(format!(
                "{again} asks again, {} goes to another kind.",
                look.key(Action::CommandLine)
            )),
        ]
    }

    fn filter_changed(&mut self) {
        self.refilter();
    }

    fn open(&mut self, context: &mut Context<'_>) {
        if !self.loaded {
            self.ask(context);
        }
    }

    fn wake(&mut self, _moved: bool, context: &mut Context<'_>) {
        let rested = self
            .asked_at
            .is_none_or(|at| context.now - at >= TimeDelta::seconds(REFRESH_SECONDS_MIN));
        self.stale |= context.snapshot.steps.gone != self.gone_before;
        if self.stale && rested {
            self.ask(context);
        }
    }

    fn answer(&mut self, arrived: &mut Arrived, _context: &mut Context<'_>) -> bool {
        let Some(answer) = arrived.take::<query::Resources>(&mut self.ticket) else {
            return false;
        };
        self.loaded = true;
        self.error = None;
        match answer {
            Ok(listings) => {
                let held = self.row(self.list.cursor).map(|r| r.key.clone());
                self.listings = listings;
                self.forget_gone_marks();
                self.measure();
                // Rows may have come and gone, so the old indices are no longer valid.
                self.visible.clear();
                self.refilter();
                let keys = self
                    .visible
                    .iter()
                    .map(|(l, r)| self.listings[*l as usize].rows[*r as usize].key.clone());
                self.list.hold(held, keys);
            }
            Err(error) => self.error = Some(error.to_string()),
        }
        true
    }

    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        match action {
            Action::Open => {
                if let Some(row) = self.row(self.list.cursor) {
                    context.push(Route::Details(Box::new(row.clone())));
                }
            }
            Action::Mark => {
                if let Some(key) = self.row(self.list.cursor).map(|r| r.key.to_string()) {
                    if !self.list.marks.remove(&key) {
                        self.list.marks.insert(key);
                    }
                    self.list.go(Action::Down, self.visible.len(), 1);
                }
            }
            Action::Explain => {
                if let Some(row) = self.row(self.list.cursor) {
                    context.push(Route::Explain {
                        key: row.key.clone(),
                        words: Subject::of(row).words(),
                    });
                }
            }
            Action::Sort => self.sort_by_next(),
            Action::SortBackwards => self.sort_backwards(),
            Action::PlanDeletion => self.plan(context),
            Action::Copy => {
                if let Some(row) = self.row(self.list.cursor) {
                    context.copy(row.key.id.clone());
                }
            }
            Action::Refresh => {
                self.ask(context);
                let sites = count(context.snapshot.sites.len(), "site");
                context.say(Tone::Dim, format!("asking {sites} again"));
            }
            _ => {}
        }
    }
}
