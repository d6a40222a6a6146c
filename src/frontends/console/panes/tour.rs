//! A tour of the practice cloud: what a person can try, how, and what they have done already.

use super::kit::*;
use crate::domain::model::{Deletion, DeletionState};

/// One thing to try. It is done once a deletion of this network of the practice cloud fulfils `done`.
struct Station {
    title: &'static str,
    network: &'static str,
    done: fn(&Deletion) -> bool,
    /// How it is tried; an action in braces stands for its key.
    how: [&'static str; 3],
}

impl Station {
    fn is_done_by(&self, deletion: &Deletion) -> bool {
        let mut names = deletion.targets.iter().map(|target| &target.name);
        names.any(|name| name == self.network) && (self.done)(deletion)
    }
}

const STATIONS: &[Station] = &[
    Station {
        title: "plan a deletion, and start it",
        network: "web",
        done: |deletion| deletion.counts.total > 0,
        how: [
            "Type :network and enter, go to web, press {plan_deletion}.",
            "All resources that must go are listed in their order; nothing has been sent yet.",
            "{confirm}, type web, {confirm}: now the deletion runs.",
        ],
    },
    Station {
        title: "watch the deletion, and see which step ran when",
        network: "web",
        done: |deletion| deletion.state == DeletionState::Gone,
        how: [
            "Type :deletions, {open} on web: its tree.",
            "{chart} draws its steps over time, and says what they waited for.",
            "A step is gone once the cloud no longer shows it, not when a call succeeds.",
        ],
    },
    Station {
        title: "retry a step that is blocked",
        network: "legacy",
        done: |deletion| deletion.state == DeletionState::Gone,
        how: [
            "Delete legacy likewise. Its router's interface is not freed at once.",
            ":retrying says when the step is retried, {open} there what the cloud answered.",
            "{retry} retries the step at once; here the fourth attempt succeeds.",
        ],
    },
    Station {
        title: "explain a step that is stuck",
        network: "vault",
        done: |deletion| deletion.counts.stuck + deletion.counts.purged > 0,
        how: [
            "Delete vault. The cloud forbids deleting a port of it, so a retry does not help.",
            ":stuck names the port; {open} shows the raw answer and every attempt,",
            "{explain} explains the step, down to the root blocker.",
        ],
    },
    Station {
        title: "take the last rung of the ladder: abandon the step",
        network: "vault",
        done: |deletion| deletion.counts.purged > 0,
        how: [
            "In :stuck, {ladder} on the port shows what else can be done, and does nothing.",
            "{confirm} on forget asks for the deletion's short id, then abandons the step.",
            ":orphans lists the port that was left behind, and whether it still exists.",
        ],
    },
];

struct TourPane {
    deletions: Feed<Deletion>,
    is_begun: bool,
}

struct Stop {
    station: &'static Station,
    is_done: bool,
}

pub(super) fn open(around: &Around<'_>) -> Opened {
    if !around.practices {
        return Err("the tour needs the practice cloud: start gone --sandbox");
    }
    let mut pane = TourPane {
        deletions: Feed::paged(query::Deletions::default()),
        is_begun: false,
    };
    let mut rows = Rows::from(Feed::silent());
    pane.answered(&mut rows);
    Ok(listed(pane, rows))
}

impl Row for Stop {
    fn key(&self) -> String {
        self.station.title.to_owned()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.station.title, self.station.network])
    }
}

impl ListPane for TourPane {
    type Row = Stop;
    const SCOPE: Scope = Scope::Reading;
    const NOUN: &'static str = "station";
    const DETAIL_ROWS: u16 = 5;
    const NOTHING: &'static [&'static str] = &["The tour has no stations here."];

    fn heading(&self, rows: &Rows<Stop>, _look: &RenderContext) -> String {
        let done = rows.all().filter(|stop| stop.is_done).count();
        format!("tour of the practice cloud: {done} of {}", STATIONS.len())
    }
    fn table(&self, _rows: &Rows<Stop>, _look: &RenderContext) -> Table<'_, Stop> {
        columns! { stop: Stop, look;
            fixed("DONE", 4) => match stop.is_done {
                true => Cell::new(look.pick("✓", "+"), Tone::Good),
                false => Cell::dim(look.none()),
            },
            flex("WHAT TO TRY", 1) => Cell::plain(stop.station.title),
        }
    }
    fn lead(&self, _rows: &Rows<Stop>, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::dim(
            "Nothing here is real: the cloud ends with its engine. :tour leads back to this list.",
        )]
    }
    fn details(&self, stop: &Stop, look: &RenderContext) -> Vec<Cell> {
        let lines = stop.station.how.map(|line| look.keys.spell(line));
        lines.map(Cell::plain).to_vec()
    }
    others! { deletions }
    fn answered(&mut self, rows: &mut Rows<Stop>) {
        let stops = STATIONS.iter().map(|station| Stop {
            station,
            is_done: self.deletions.rows.iter().any(|it| station.is_done_by(it)),
        });
        rows.feed.replace_rows(stops.collect());
        if self.deletions.pace.loaded && !self.is_begun {
            self.is_begun = true;
            let next = rows.all().position(|stop| !stop.is_done);
            rows.list.cursor = next.unwrap_or_default();
        }
    }
    fn copies(&self, _: &Rows<Stop>, stop: &Stop) -> Vec<Copied> {
        vec![Copied::new("the title", stop.station.title)]
    }
}
