//! The blockers of a step, or of the resources of a refused deletion or plan; and their owners (P2).

use super::kit::*;
use crate::domain::awaiting;
use crate::domain::model::{Blocker, Refusal, Step, Target};
use crate::present::{blocker_words, resource_words, rule_words};

/// One blocker, or one rule that refuses a resource.
#[derive(Clone, Debug)]
struct BlockerRow {
    /// `blocked by floating IP 203.0.113.9 (project demo, not in this plan)`
    text: String,
    /// The resource that is blocked, in words.
    resource: String,
    /// Id of the blocker, or of the blocked resource if a rule refuses it.
    id: String,
    site: String,
    since: Option<DateTime<Utc>>,
    advice: String,
}

impl BlockerRow {
    fn of_refusals(refused: &[Refusal]) -> Vec<Self> {
        let row = |refusal: &Refusal| {
            let Target { key, name } = &refusal.resource;
            let words = resource_words(&key.kind, name, &key.id);
            let advice = refusal.reason.clone();
            match &refusal.blocker {
                Some(blocker) => Self::new(blocker, words, advice),
                None => Self {
                    text: format!("{words} is {}", rule_words(refusal.rule)),
                    resource: words,
                    id: key.id.clone(),
                    site: key.site.to_string(),
                    since: None,
                    advice,
                },
            }
        };
        refused.iter().map(row).collect()
    }

    fn of_step(step: &Step) -> Vec<Self> {
        let words = step_words(step);
        let elsewhere = awaiting::next_action(step);
        let row = |blocker: &Blocker| {
            let advice = elsewhere.as_deref().unwrap_or(match blocker.in_plan {
                true => "This deletion removes the blocker too; no action is needed.",
                false => "This deletion keeps the blocker: ask its owner to remove it. Then retry.",
            });
            Self::new(blocker, words.clone(), advice.to_owned())
        };
        step.blockers.iter().map(row).collect()
    }

    fn new(blocker: &Blocker, resource: String, advice: String) -> Self {
        Self {
            text: format!("blocked by {}", blocker_words(blocker)),
            resource,
            id: blocker.id.clone(),
            site: blocker.site.to_string(),
            since: blocker.since,
            advice,
        }
    }
}

struct BlockersPane {
    words: String,
    /// The step or deletion whose blockers are shown; `None` for a plan.
    of: Option<PurgeScope>,
}

/// Returns a pane that queries and shows the blockers of a step or a deletion.
pub(super) fn of(of: PurgeScope, words: String) -> Box<dyn Pane> {
    let feed = feed_of(of.clone(), |item| match item {
        WorkItem::Step(step) => BlockerRow::of_step(step),
        WorkItem::Deletion(deletion) => BlockerRow::of_refusals(&deletion.refused),
    });
    let of = Some(of);
    listed(BlockersPane { words, of }, feed)
}

pub(super) fn of_plan(refused: &[Refusal], words: String) -> Box<dyn Pane> {
    let known = BlockerRow::of_refusals(refused);
    listed(BlockersPane { words, of: None }, known)
}

impl Row for BlockerRow {
    fn key(&self) -> String {
        format!("{} {}", self.id, self.resource)
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text.as_str(), &self.id, &self.resource])
    }
}

impl ListPane for BlockersPane {
    type Row = BlockerRow;
    const SCOPE: Scope = Scope::Blockers;
    const NOUN: &'static str = "blocker";
    const DETAIL_ROWS: u16 = 5;
    const LOADING: &'static str = "Asking for the blockers…";
    const NOTHING: &'static [&'static str] = &[
        "No blocker is known.",
        "If the step is still not gone, its own error says why: enter on the step shows it.",
    ];
    const NOTHING_THEN: &'static str = "No blocker was known then.";

    fn heading(&self, _rows: &Rows<BlockerRow>, _look: &RenderContext) -> String {
        format!("blockers of {}", self.words)
    }
    fn table(&self, _rows: &Rows<BlockerRow>, _look: &RenderContext) -> Table<'_, BlockerRow> {
        columns! { row: BlockerRow, look;
            flex("WHAT", 4) => Cell::new(&row.text, Tone::Warn),
            fixed("SINCE (UTC)", 11).from(60) => Cell::dim(look.maybe_time(row.since)); time_key(row.since),
            flex("BLOCKS", 2).from(110) => Cell::plain(&row.resource),
            fixed("SITE", 18).from(130) => Cell::dim(&row.site),
        }
    }
    fn details(&self, row: &BlockerRow, _look: &RenderContext) -> Vec<Cell> {
        vec![
            Cell::plain(&row.text),
            Cell::dim(format!("id {} at {}", row.id, row.site)),
            Cell::plain(&row.advice),
        ]
    }
    fn copies(&self, _: &Rows<BlockerRow>, row: &BlockerRow) -> Vec<Copied> {
        vec![Copied::id(&row.id)]
    }
    fn act_on(&mut self, _: &mut Rows<BlockerRow>, action: Action, context: &mut Context) -> bool {
        let of = self.of.as_ref();
        of.is_some_and(|of| act(of, self.words.clone(), action, context))
    }
}
