//! Resources of one kind, at all sites.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::TimeDelta;
use unicode_width::UnicodeWidthStr;

use super::kit::*;
use super::names::{self, NamesById};
use crate::control::{KindInfo, SiteListing};
use crate::domain::model::{KindName, Phase, Resource, ResourceKey, Site, Tombstone, short_id};
use crate::frontends::console::render_context::WIDE;
use crate::present::{at_path, count, kind_words};

/// Shortest time between two listings that a clock starts, because each listing costs calls to the clouds.
const LISTED_EVERY: TimeDelta = TimeDelta::seconds(5);
/// Number of rows near the cursor that are looked up in the ledger, more than a screen has.
const LOOKED_UP_MAX: usize = 500;
/// Maximum number of rows that are measured for column widths; more would change little.
const MEASURED_ROWS_MAX: usize = 1_000;
const COLUMN_WIDTH_MAX: usize = 40;

struct BrowsePane {
    kind: Arc<KindInfo>,
    /// The widths of the kind's columns.
    widths: Vec<u16>,
    departures: Departures,
    /// For each kind to which the resources refer, the names of its resources by id.
    lookups: Vec<Feed<(String, String)>>,
    /// Whether ids are shown instead of names.
    shows_ids: bool,
    /// The snapshot at the last update.
    before: Option<Arc<Snapshot>>,
}

/// The resources that were listed and are gone now. The ledger has their tombstones at once, while a new listing of
/// the clouds may take long.
#[derive(Default)]
struct Departures {
    pace: Pace,
    /// The rows to look up.
    keys: Vec<ResourceKey>,
    gone: Vec<Tombstone>,
}

impl Departures {
    fn look_up(&mut self, keys: Vec<ResourceKey>) {
        self.keys = keys;
        self.invalidate();
    }

    fn has(&self, row: &Listed) -> bool {
        let mut gone = self.gone.iter();
        let gone = gone.find(|it| it.key == row.resource.key);
        gone.is_some_and(|tombstone| tombstone.is_gone_since(row.listed_at))
    }
}

impl Refreshed for Departures {
    fn invalidate(&mut self) {
        if !self.keys.is_empty() {
            self.pace.invalidate();
        }
    }
    fn ask(&mut self, context: &mut Context) {
        if !self.keys.is_empty() && self.pace.is_due(context) {
            let keys = std::mem::take(&mut self.keys);
            let ticket = context.outbox.ask(query::TombstonesOf { keys });
            self.pace.asked(ticket, context.now);
        }
    }
    fn answer(&mut self, arrived: &mut Arrived, context: &mut Context) -> bool {
        let Some(answer) = arrived.take::<query::TombstonesOf>(&mut self.pace.ticket) else {
            return false;
        };
        self.pace.arrived(context.now);
        // After an error, the next listing of the clouds shows which resources are gone.
        if let Ok(mut tombstones) = answer {
            tombstones.retain(|it| it.phase == Phase::Gone);
            self.gone = tombstones;
        }
        true
    }
    fn is_waiting(&self) -> bool {
        !self.keys.is_empty() && self.pace.is_waiting()
    }
}

/// A listed resource, with its kind: a search matches the text of the kind's columns too.
struct Listed {
    resource: Resource,
    kind: Arc<KindInfo>,
    listed_at: DateTime<Utc>,
    /// The names of the projects at the resource's site, by id.
    projects: Arc<NamesById>,
    /// The names of the other resources to which the resource may refer, by id.
    others: Arc<NamesById>,
}

pub(super) fn of(kind: KindInfo) -> Box<dyn Pane> {
    let kind = Arc::new(kind);
    let of_kind = kind.clone();
    let resources = query::Resources {
        kind: kind.name.as_str().to_owned(),
        names: true,
        ..query::Resources::default()
    };
    let feed = Feed::reading(resources, move |listings| read(listings, &of_kind));
    let shown = kind.columns.iter();
    let referred = shown.filter_map(|(_, path)| kind.fields.refers_to.get(path));
    let referred: BTreeSet<&KindName> = referred.collect();
    let lookups = referred.into_iter();
    let lookups = lookups.map(|kind| names::look_up(kind.as_str(), None));
    let pane = BrowsePane {
        lookups: lookups.collect(),
        kind,
        widths: Vec::new(),
        departures: Departures::default(),
        shows_ids: false,
        before: None,
    };
    let mut rows = Rows::from(feed.every(LISTED_EVERY));
    rows.list.word = Some(pane.kind.name.to_string());
    listed(pane, rows)
}

/// Returns the rows of all sites, and an error for each site that could not be listed, so that the site does not look
/// empty.
fn read(listings: Vec<SiteListing>, kind: &Arc<KindInfo>) -> Batch<Listed> {
    let failed = listings.iter().filter_map(|listing| {
        let error = listing.error.as_ref()?;
        Some(format!("{} could not be listed: {error}", listing.site))
    });
    let errors = failed.collect();
    let rows = listings.into_iter().flat_map(|listing| {
        let rows = listing.rows.into_iter();
        let projects = Arc::new(listing.names);
        rows.map(move |resource| Listed {
            resource,
            kind: kind.clone(),
            listed_at: listing.at,
            projects: projects.clone(),
            others: Arc::default(),
        })
    });
    Batch {
        rows: rows.collect(),
        next: None,
        errors,
    }
}

impl Listed {
    /// Returns a column's text, from the listed row or from the fields that every resource has.
    fn field(&self, path: &str) -> String {
        let text = at_path(&self.resource.attributes, path);
        match path {
            _ if !text.is_empty() => text,
            "id" => self.resource.key.id.clone(),
            "name" => self.resource.name.clone(),
            _ if self.kind.is_project(path) => self.resource.project_id.clone(),
            _ => text,
        }
    }

    /// The text of a field whose meaning is known; empty if the kind has no such field.
    fn known(&self, path: Option<&String>) -> String {
        path.map_or(String::new(), |path| self.field(path))
    }

    /// Works like [`Self::field`], with names for ids where they are known.
    fn named(&self, path: &str) -> String {
        let ids = self.field(path);
        let refers = self.kind.fields.refers_to.contains_key(path);
        match self.kind.is_project(path) {
            true => names::named(&ids, &self.projects),
            false if refers => names::named(&ids, &self.others),
            false => ids,
        }
    }
}

impl Row for Listed {
    fn key(&self) -> String {
        self.resource.key.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let Resource { key, name, .. } = &self.resource;
        // A person may search by the id or by the name of a referenced resource.
        let paths = || self.kind.columns.iter().map(|(_, path)| path);
        let ids = paths().map(|path| self.field(path));
        let cells: Vec<String> = ids.chain(paths().map(|path| self.named(path))).collect();
        let texts = [name.as_str(), &key.id].into_iter();
        let texts: Vec<&str> = texts.chain(cells.iter().map(String::as_str)).collect();
        let fields = &self.kind.fields;
        filter.fits(&Facts {
            texts: &texts,
            state: &self.known(fields.state.as_ref()),
            kind: key.kind.as_str(),
            site: &key.site.to_string(),
            project: &self.resource.project_id,
            since: self.known(fields.created.as_ref()).parse().ok(),
        })
    }
}

impl BrowsePane {
    /// The text of a column, with names unless the person chose ids.
    fn text(&self, row: &Listed, path: &str) -> String {
        match self.shows_ids {
            true => row.field(path),
            false => row.named(path),
        }
    }

    fn cell(&self, row: &Listed, path: &str, look: &RenderContext) -> Cell {
        let text = self.text(row, path);
        let is_short = is_id(path) && look.width < WIDE && text == row.field(path);
        Cell::plain(if is_short { short_id(&text) } else { &text })
    }

    fn measure(&mut self, rows: &Rows<Listed>) {
        let columns = self.kind.columns.iter();
        let widths = columns.map(|(heading, path)| {
            let measured = rows.all().take(MEASURED_ROWS_MAX);
            let widest = measured.map(|row| self.text(row, path).width()).max();
            let width = widest.unwrap_or(0).max(heading.width());
            u16::try_from(width.clamp(2, COLUMN_WIDTH_MAX)).unwrap_or(0)
        });
        self.widths = widths.collect();
    }

    fn column(&self, at: usize, look: &RenderContext) -> Column {
        let (heading, path) = &self.kind.columns[at];
        let wide = self.widths.get(at).copied().unwrap_or(10);
        // Ids stay whole on a wide screen.
        let shows_id = is_id(path) && (self.shows_ids || !self.kind.has_names(path));
        let is_short = look.width < WIDE && shows_id;
        let wide_max = if is_short { 8 } else { look.width / 2 };
        // One column takes the width that is left: the name, or else the last.
        let columns = &self.kind.columns;
        let name = columns.iter().position(|(_, path)| path == "name");
        let width = match at == name.unwrap_or(columns.len() - 1) {
            true => Width::Growing(wide.min(look.width / 2)),
            false => Width::Fixed(wide.min(wide_max)),
        };
        Column {
            tail: shows_id,
            width,
            ..fixed(heading.to_uppercase(), 0)
        }
    }

    fn plan(&self, rows: &Rows<Listed>, context: &mut Context) {
        let chosen = rows.chosen();
        if chosen.is_empty() {
            return context.say_empty("no resource is listed, so no deletion can be planned");
        }
        // The engine itself deletes nothing at a read-only site (P5); the check here only saves the person a plan that
        // cannot be started.
        let sites = chosen.iter().map(|row| &row.resource.key.site);
        if let Some(name) = read_only(context.snapshot, sites) {
            let why = format!("{name} is read-only: nothing can be deleted");
            return context.say(Tone::Warn, why);
        }
        let targets = chosen.iter().map(|row| row.resource.target());
        context.push(Route::Plan(targets.collect(), self.kind.has_dependents));
    }
}

/// Returns the name of a read-only site among these, or of the engine if all of it is read-only.
fn read_only<'a>(snapshot: &Snapshot, mut sites: impl Iterator<Item = &'a Site>) -> Option<String> {
    if snapshot.engine.read_only {
        return Some("this engine".to_owned());
    }
    let is_read_only = |site: &&Site| {
        let mut known = snapshot.sites.iter();
        known.any(|known| known.site == **site && known.read_only)
    };
    sites.find(is_read_only).map(ToString::to_string)
}

/// Whether a column shows ids. Ids differ at their end, which a narrow column shows.
fn is_id(path: &str) -> bool {
    path == "id" || path.ends_with("_id")
}

impl ListPane for BrowsePane {
    type Row = Listed;
    const SCOPE: Scope = Scope::Browse;
    const NOUN: &'static str = "resource";
    const REFRESH: Refresh = Refresh::Paced;
    const DETAIL_ROWS: u16 = 2;
    const NOTHING: &'static [&'static str] = &[];
    const FAILED: &'static [&'static str] = &[
        "Not every site could be listed; the reason is above.",
        "{refresh} asks again; :sites shows which sites are reachable.",
    ];

    fn heading(&self, rows: &Rows<Listed>, _look: &RenderContext) -> String {
        let kind = kind_words(&self.kind.name);
        match rows.feed.pace.loaded {
            true => format!("{kind} {}", rows.number()),
            false => kind,
        }
    }
    fn table(&self, _rows: &Rows<Listed>, look: &RenderContext) -> Table<'_, Listed> {
        let columns = self.kind.columns.iter().enumerate().map(|(at, (_, path))| {
            let column = self.column(at, look);
            paired(column, move |row: &Listed, look| self.cell(row, path, look))
        });
        let from_width = if look.many_sites { 0 } else { u16::MAX };
        let site = columns! { row: Listed, look;
            fixed("SITE", 18).from(from_width) => Cell::dim(look.site(&row.resource.key.site)),
        };
        Table(columns.chain(site.0).collect())
    }
    fn details(&self, row: &Listed, look: &RenderContext) -> Vec<Cell> {
        let resource = &row.resource;
        let id = &resource.project_id;
        let project = names::project_words(id, row.projects.get(id), look);
        let mut facts = vec![words_at(&resource.target()), format!("project {project}")];
        if !resource.tags.is_empty() {
            facts.push(format!("tags {}", resource.tags.join(", ")));
        }
        vec![
            Cell::plain(facts.join(look.dot())),
            Cell::dim(format!("id {}", resource.key.id)),
        ]
    }
    fn vacancy(&self, rows: &Rows<Listed>, look: &RenderContext) -> Vacancy {
        let kind = kind_words(&self.kind.name);
        let nothing = match look.replays {
            true => [
                format!("A replay asks no cloud: it lists no {kind}."),
                ":deletions and :stuck show what the ledger knew.".to_owned(),
            ],
            false => [
                format!("There is no {kind} that you may see here."),
                "{refresh} asks again, {command_line} goes to another kind.".to_owned(),
            ],
        };
        let nothing = look.texts(&nothing);
        Vacancy {
            load: self.load(rows),
            loading: vec![Cell::dim(format!("Listing every {kind} at every site…"))],
            failed: match look.replays {
                true => nothing.clone(),
                false => look.texts(Self::FAILED),
            },
            nothing,
            noun: kind.into(),
        }
    }
    fn others(&self) -> Vec<&dyn Refreshed> {
        let mut others: Vec<&dyn Refreshed> = vec![&self.departures];
        others.extend(self.lookups.iter().map(|it| it as &dyn Refreshed));
        others
    }
    fn others_mut(&mut self) -> Vec<&mut dyn Refreshed> {
        let mut others: Vec<&mut dyn Refreshed> = vec![&mut self.departures];
        others.extend(self.lookups.iter_mut().map(|it| it as &mut dyn Refreshed));
        others
    }
    /// Removes the resources that are gone, and gives the other rows the names that are known.
    fn answered(&mut self, rows: &mut Rows<Listed>) {
        if !self.departures.gone.is_empty() {
            rows.feed.rows.retain(|row| !self.departures.has(row));
            // If the listing of a site failed, the marks of its rows stay; but a resource that is gone loses its mark.
            for Tombstone { key, .. } in &self.departures.gone {
                if !rows.feed.rows.iter().any(|row| row.resource.key == *key) {
                    rows.list.marks.set(key.to_string(), false);
                }
            }
        }
        let names = self.lookups.iter().flat_map(|lookup| &lookup.rows).cloned();
        let names: Arc<NamesById> = Arc::new(names.collect());
        for row in &mut rows.feed.rows {
            row.others = names.clone();
        }
        self.measure(rows);
    }
    /// Looks up which listed resources are gone, and lists the resources again once a deletion has begun or changed its
    /// state.
    fn update(&mut self, rows: &mut Rows<Listed>, context: &Context, moved: bool) -> bool {
        if !moved {
            return false;
        }
        let now = context.snapshot;
        let Some(before) = self.before.replace(now.clone()) else {
            return false;
        };
        if before.steps.gone != now.steps.gone {
            let near = rows.near_cursor(LOOKED_UP_MAX);
            let keys = near.map(|row| row.resource.key.clone());
            self.departures.look_up(keys.collect());
        }
        if before.deletions_by_state != now.deletions_by_state {
            rows.feed.invalidate();
        }
        false
    }
    fn copies(&self, _: &Rows<Listed>, row: &Listed) -> Vec<Copied> {
        vec![Copied::id(&row.resource.key.id)]
    }
    fn act_on(&mut self, rows: &mut Rows<Listed>, action: Action, context: &mut Context) -> bool {
        match action {
            Action::Ids => {
                self.shows_ids = !self.shows_ids;
                self.measure(rows);
            }
            Action::PlanDeletion => self.plan(rows, context),
            Action::Refresh => {
                rows.feed.ask_at_once(context);
                let sites = count(context.snapshot.sites.len(), "site");
                context.say(Tone::Dim, format!("asking {sites} again"));
            }
            _ => return false,
        }
        true
    }
    fn act(&mut self, row: &Listed, action: Action, context: &mut Context) {
        let resource = &row.resource;
        let words = || words_at(&resource.target());
        match action {
            Action::Open => context.push(Route::Details(Box::new(resource.clone()), row.listed_at)),
            Action::Explain => context.push(Route::Explain(resource.key.clone(), words())),
            Action::Yaml => {
                let record = Record::Resource(Box::new(resource.clone()), row.listed_at);
                context.push(Route::Yaml(record, words()));
            }
            _ => {}
        }
    }
}
