//! The sites that the engine works with.

use super::heat::{heat_line, heat_words, last_hour};
use super::kit::*;
use crate::control::{Command, SiteStatus};
use crate::domain::last_hour::LastHour;
use crate::frontends::console::about::site_state;
use crate::present::{count, joined};

struct SitesPane {
    heat: Feed<LastHour>,
}

pub(super) fn open(_: &Around<'_>) -> Opened {
    Ok(listed(SitesPane { heat: last_hour() }, Feed::silent()))
}

impl Row for SiteStatus {
    fn key(&self) -> String {
        self.site.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits(&Facts {
            texts: &[&self.reason],
            site: &self.site.to_string(),
            ..Facts::default()
        })
    }
}

/// Pauses a site, or resumes it if a person paused it. A pause because of lost rights ends automatically.
fn pause(status: &SiteStatus, context: &mut Context) {
    let site = status.site.clone();
    let words = CommandWords::pausing(status.paused_by.is_some(), &site.to_string());
    let command = match status.paused_by {
        Some(_) => Command::ResumeSite { site },
        None => Command::PauseSite { site },
    };
    context.submit(words, command);
}

/// The share of the last calls that failed because of the cloud, not because of a resource.
fn errors(site: &SiteStatus, look: &RenderContext) -> Cell {
    match site.error_percent {
        None => Cell::dim(look.none()),
        Some(0) => Cell::dim("0%"),
        Some(percent) => Cell::new(format!("{percent}%"), Tone::Warn),
    }
}

fn latency(site: &SiteStatus, look: &RenderContext) -> String {
    let latency = site.latency_ms.map(|ms| format!("{ms} ms"));
    latency.unwrap_or_else(|| look.none().to_owned())
}

fn why(site: &SiteStatus) -> String {
    let read_only = site.read_only.then_some("read-only");
    joined(read_only.into_iter().chain(non_empty(&site.reason)), "; ")
}

impl SitesPane {
    /// The last hour at a site, as a picture and in words.
    fn last_hour(&self, site: &SiteStatus, look: &RenderContext) -> Vec<Cell> {
        // The picture is one line of the detail, which is narrow where it is beside the table.
        let signs = match look.width {
            0..50 => 20,
            50..80 | 160..190 => 30,
            _ => 60,
        };
        let Some(hour) = self.heat.rows.first() else {
            return Vec::new();
        };
        let words = heat_words(hour, &site.site);
        let none = look.pick("▁ none, █ all", "_ none, # all");
        vec![
            heat_line(hour, "last hour ", &site.site, signs, look),
            Cell::dim(format!("{words}{}{none}", look.dot())),
        ]
    }
}

impl ListPane for SitesPane {
    type Row = SiteStatus;
    const SCOPE: Scope = Scope::Sites;
    const NOUN: &'static str = "site";
    const REFRESH: Refresh = Refresh::Never;
    /// The reason why a site is unreachable is a sentence that ends with what to do.
    const DETAIL_ROWS: u16 = 7;
    const LOADING: &'static str = "Asking the engine for its sites…";
    const NOTHING: &'static [&'static str] = &[
        "No cloud is configured.",
        "Put a clouds.yaml into ~/.config/openstack, then start again;",
        "gone doctor checks it. gone --sandbox needs no clouds.yaml.",
    ];
    const NOTHING_THEN: &'static str =
        "A replay asks no cloud; :events shows when a site became unreachable or was paused.";

    fn update(&mut self, rows: &mut Rows<SiteStatus>, context: &Context, moved: bool) -> bool {
        if moved {
            self.heat.invalidate();
        }
        let is_known = context.snapshot.at.is_some();
        if is_known {
            rows.feed.replace_rows(context.snapshot.sites.clone());
        }
        is_known
    }
    fn freshness(&self, _rows: &Rows<SiteStatus>, _now: DateTime<Utc>) -> Freshness {
        Freshness::Live
    }
    fn table(&self, _rows: &Rows<SiteStatus>, _look: &RenderContext) -> Table<'_, SiteStatus> {
        columns! { row: SiteStatus, look;
            flex("SITE", 2) => Cell::plain(look.site(&row.site)),
            fixed("STATE", 15) => site_state(row, look),
            fixed("LATENCY", 8).right() => Cell::plain(latency(row, look)),
            fixed("ERRORS", 6).right().from(100) => errors(row, look),
            fixed("CALLS", 7).right().from(50) => Cell::plain(format!("{}/{}", row.in_flight, row.concurrency_limit)),
            flex("AS", 1).from(60) => Cell::dim(&row.as_user),
            flex("WHY", 2).from(70) => Cell::plain(why(row)),
        }
    }
    fn details(&self, site: &SiteStatus, look: &RenderContext) -> Vec<Cell> {
        let limit = site.concurrency_limit;
        let calls = count(site.in_flight, "call");
        let calls = format!("{calls} in flight, at most {limit}");
        let failed = site.error_percent;
        let failed = failed.map(|percent| format!("{percent}% of the last calls failed"));
        // The user is unknown if the sign-in was refused.
        let user = non_empty(&site.as_user).map(|user| format!("as {user}"));
        let facts = [Some(site.site.to_string()), Some(calls), failed, user];
        let facts = joined(facts.into_iter().flatten(), look.dot());
        let mut lines = vec![Cell::plain(facts)];
        let tone = site_state(site, look).tone;
        lines.extend(non_empty(&site.reason).map(|reason| Cell::new(reason, tone)));
        if site.read_only {
            lines.push(Cell::new("read-only: nothing is deleted here", Tone::Warn));
        }
        // The lines about the last hour come last: on a small screen, the reason why a site is not asked matters more.
        lines.extend(self.last_hour(site, look));
        lines
    }
    others! { heat }
    fn copies(&self, _: &Rows<SiteStatus>, site: &SiteStatus) -> Vec<Copied> {
        vec![Copied::new("the name", &site.site.to_string())]
    }
    fn act(&mut self, site: &SiteStatus, action: Action, context: &mut Context) {
        if action == Action::Pause {
            pause(site, context);
        }
    }
}
