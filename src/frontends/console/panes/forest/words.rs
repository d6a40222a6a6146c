//! The texts in the rows of the tree.

use crate::domain::awaiting::silent_deployment;
use crate::domain::model::{Blocker, Refusal, Site, StepState, Target, short_id};
use crate::domain::outline::BY_URGENCY;

use super::super::kit::{Cell, RenderContext, Tone};
use super::{Forest, Known, PlanRole, Span, TreeRow};
use crate::present::{
    counts_words, kind_words, progress_words, resource_words, rule_words, thousands,
};

/// Deeper rows are not indented further.
const INDENT_MAX: u8 = 12;

impl Forest {
    /// The name of a row with the guides of the tree, such as `  ├ port ×10,000`.
    pub(crate) fn label(&self, row: usize, look: &RenderContext) -> Cell {
        let (Some((span, offset)), Some(shown)) = (self.span(row), self.row(row)) else {
            return Cell::default();
        };
        let mut text = guides(span, offset + 1 == span.len, look);
        let (closed, open) = (look.pick("▸ ", "> "), look.pick("▾ ", "v "));
        match shown {
            TreeRow::Step(_, None) => Cell::dim(text + look.pick("…", "...")),
            TreeRow::Step(known, Some(node)) => {
                if let Some(known) = known
                    && known.opens(node)
                    && !self.is_open(node.id, known.is_group())
                {
                    text.push_str(closed);
                }
                text.push_str(&node.words());
                Cell::plain(text + &self.at_site(&node.key.site, look))
            }
            TreeRow::Group(Known { branch, .. }) => {
                let is_open = self.opened.contains(&branch.id);
                text.push_str(if is_open { open } else { closed });
                let (kind, times) = (kind_words(&branch.kind), look.pick(" ×", " x"));
                let total = thousands(branch.counts.total);
                let site = self.at_site(&branch.site, look);
                Cell::new(format!("{text}{kind}{times}{total}{site}"), Tone::Strong)
            }
            TreeRow::Elsewhere(_, by) => {
                text.push_str(&resource_words(&by.kind, &by.name, &by.id));
                if silent_deployment(by).is_none() {
                    text.push_str(&format!(" @{}", by.site));
                }
                Cell::plain(text)
            }
            TreeRow::Section(part) => Cell::new(
                match part {
                    PlanRole::Automatic => "removed by the cloud itself, no call is sent",
                    PlanRole::Unset => "stays, and loses a reference",
                    PlanRole::Step => "",
                },
                Tone::Strong,
            ),
            TreeRow::Refused(Refusal { resource, .. }) => {
                let Target { key, name } = resource;
                look.bad(resource_words(&key.kind, name, &key.id))
            }
            TreeRow::Warning(warning) => Cell::new(format!("! {warning}"), Tone::Warn),
        }
    }

    fn at_site(&self, site: &Site, look: &RenderContext) -> String {
        match self.many_sites {
            true => format!(" @{}", look.site(site)),
            false => String::new(),
        }
    }

    /// The wave in which the resource of the row is deleted; 1 is the first. For a group, the highest wave of its steps.
    /// Empty if there is no order, or if it is not known.
    pub(crate) fn order(&self, row: usize) -> String {
        let wave = match self.row(row) {
            Some(TreeRow::Group(known)) => known.wave,
            _ => self.node(row).map_or(0, |node| node.wave),
        };
        match wave {
            0 => String::new(),
            wave => wave.to_string(),
        }
    }

    /// The action on the row's resources, in a word.
    pub(crate) fn does(&self, row: usize) -> Cell {
        Cell::plain(match self.row(row) {
            Some(TreeRow::Refused(_)) => return Cell::new("refused", Tone::Bad),
            Some(TreeRow::Warning(_)) => return Cell::new("warning", Tone::Warn),
            Some(TreeRow::Step(Some(known), _) | TreeRow::Group(known)) => match known.part {
                PlanRole::Step => known.branch.action.as_str(),
                part => part.word(),
            },
            Some(TreeRow::Step(None, Some(node))) => node.does(),
            _ => "",
        })
    }

    /// The id of the row's resource, or of its blocker at another deployment.
    pub(crate) fn id(&self, row: usize) -> Option<&String> {
        match self.row(row)? {
            TreeRow::Step(_, node) => node.map(|node| &node.key.id),
            TreeRow::Elsewhere(_, by) => Some(&by.id),
            TreeRow::Refused(refusal) => Some(&refusal.resource.key.id),
            TreeRow::Group(_) | TreeRow::Section(_) | TreeRow::Warning(_) => None,
        }
    }

    pub(crate) fn short_id(&self, row: usize) -> &str {
        self.id(row).map_or("", |id| short_id(id))
    }

    /// The reason why the row is part of the plan, or is refused.
    pub(crate) fn why(&self, row: usize) -> Cell {
        match self.row(row) {
            Some(TreeRow::Refused(refusal)) => {
                let rule = rule_words(refusal.rule);
                Cell::plain(match &refusal.blocker {
                    Some(Blocker { kind, id, name, .. }) => {
                        format!("{rule}: {}", resource_words(kind, name, id))
                    }
                    None => rule.to_owned(),
                })
            }
            _ => Cell::dim(self.node(row).map_or("", |node| &node.why)),
        }
    }

    /// The attempts of a step and their maximum, such as `3/8`; empty before the first attempt.
    pub(crate) fn attempts(&self, row: usize) -> String {
        match self.node(row).and_then(|node| node.live.as_ref()) {
            Some(live) if live.attempts > 0 => format!("{}/{}", live.attempts, live.max_attempts),
            _ => String::new(),
        }
    }

    pub(crate) fn next_attempt(&self, row: usize, look: &RenderContext) -> String {
        let live = self.node(row).and_then(|node| node.live.as_ref());
        let next = live.and_then(|live| live.next_attempt_at);
        next.map_or_else(String::new, |at| look.time(at))
    }

    /// The state of a step or a blocker, the action on a resource without a step, or the most important counts of a
    /// group.
    pub(crate) fn states(&self, row: usize, look: &RenderContext) -> Cell {
        let counts = match self.row(row) {
            Some(TreeRow::Step(_, Some(node))) => {
                return match &node.live {
                    Some(live) => look.step_state(live.state),
                    None => Cell::dim(node.does()),
                };
            }
            Some(TreeRow::Elsewhere(_, by)) => {
                return match by.in_plan {
                    true => Cell::dim("going"),
                    false if silent_deployment(by).is_some() => Cell::new("silent", Tone::Warn),
                    false => Cell::new("not going", Tone::Warn),
                };
            }
            Some(TreeRow::Group(known)) => known.branch.counts,
            _ => return Cell::default(),
        };
        let present = |state: &StepState| counts.of(*state) > 0;
        // The most urgent state of the group's steps gives the glyph and the tone.
        let most_urgent = BY_URGENCY.into_iter().find(present);
        let (glyph_of_all, tone) =
            most_urgent.map_or(("", Tone::Dim), |state| look.step_glyph(state));
        // The numbers of stuck and blocked steps; if there are none, how many are gone.
        let problems = [StepState::Stuck, StepState::Blocked].into_iter();
        let words = problems.filter(present).map(|state| {
            let (glyph, _) = look.step_glyph(state);
            format!("{glyph} {}", thousands(counts.of(state)))
        });
        let mut words: Vec<String> = words.collect();
        if words.is_empty() && !glyph_of_all.is_empty() {
            words.push(format!("{glyph_of_all} {}", progress_words(&counts)));
        }
        Cell::new(words.join(" "), tone)
    }

    /// The counts of a group, such as `880 waiting, 9,120 gone`; `None` for any other row.
    pub(crate) fn fold_words(&self, row: usize) -> Option<String> {
        match self.row(row)? {
            TreeRow::Group(known) => Some(counts_words(&known.branch.counts, BY_URGENCY)),
            _ => None,
        }
    }
}

fn guides(span: &Span, is_last: bool, look: &RenderContext) -> String {
    let mut text = String::new();
    for level in 1..span.depth.min(INDENT_MAX) {
        let continues = span.bars >> level & 1 == 1;
        let bar = look.pick("│ ", "| ");
        text.push_str(if continues { bar } else { "  " });
    }
    if span.depth > 0 {
        text.push_str(match span.closes && is_last {
            true => look.pick("└ ", "` "),
            false => look.pick("├ ", "|-"),
        });
    }
    text
}
