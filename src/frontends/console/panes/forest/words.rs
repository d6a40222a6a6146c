//! The texts in the rows of the tree.

use crate::domain::awaiting::silent_deployment;
use crate::domain::model::{Counts, Site, StepState, Target, short_id};
use crate::domain::outline::BY_URGENCY;

use super::super::kit::{Cell, RenderContext, Tone};
use super::{Forest, Known, Node, PlanRole, Span, What};
use crate::present::{
    counts_words, kind_words, progress_words, resource_words, rule_words, thousands,
};

/// Deeper rows are not indented further.
const INDENT_MAX: u8 = 12;

impl Forest {
    /// The name of a row with the guides of the tree, such as `  ├ port ×10,000`.
    pub(crate) fn label(&self, row: usize, look: &RenderContext) -> Cell {
        let Some((span, offset)) = self.span(row) else {
            return Cell::default();
        };
        let mut text = guides(span, offset + 1 == span.len, look);
        let (closed, open) = (look.pick("▸ ", "> "), look.pick("▾ ", "v "));
        match span.what {
            What::Run(..) | What::Found => {
                let Some(node) = self.node(row) else {
                    return Cell::dim(text + look.pick("…", "..."));
                };
                if self.is_folded(row, node) {
                    text.push_str(closed);
                }
                text.push_str(&node.words());
                Cell::plain(text + &self.at_site(&node.key.site, look))
            }
            What::Group(branch) => {
                let Some(Known { branch, .. }) = self.known(branch) else {
                    return Cell::default();
                };
                let is_open = self.opened.contains(&branch.id);
                text.push_str(if is_open { open } else { closed });
                let (kind, times) = (kind_words(&branch.kind), look.pick(" ×", " x"));
                let (total, site) = (
                    thousands(branch.counts.total),
                    self.at_site(&branch.site, look),
                );
                Cell::new(format!("{text}{kind}{times}{total}{site}"), Tone::Strong)
            }
            What::Elsewhere(..) => self.elsewhere(row).map_or_else(Cell::default, |by| {
                text.push_str(&resource_words(&by.kind, &by.name, &by.id));
                if silent_deployment(by).is_none() {
                    text.push_str(&format!(" @{}", by.site));
                }
                Cell::plain(text)
            }),
            What::Section(part) => Cell::new(
                match part {
                    PlanRole::Automatic => "removed by the cloud itself, no call of ours",
                    PlanRole::Unset => "stays, and loses a reference",
                    PlanRole::Step => "",
                },
                Tone::Strong,
            ),
            What::Refused => self.refusal(row).map_or_else(Cell::default, |refusal| {
                let Target { key, name } = &refusal.resource;
                look.bad(resource_words(&key.kind, name, &key.id))
            }),
        }
    }

    /// Whether the step has rows below it that are not shown.
    fn is_folded(&self, row: usize, node: &Node) -> bool {
        let Some(What::Run(branch, _)) = self.span(row).map(|(span, _)| span.what) else {
            return false;
        };
        let known = self.known(branch).filter(|known| known.opens(node));
        known.is_some_and(|known| !self.is_open(node.id, known.is_group()))
    }

    fn at_site(&self, site: &Site, look: &RenderContext) -> String {
        match self.many_sites {
            true => format!(" @{}", look.site(site)),
            false => String::new(),
        }
    }

    /// The order in which the row goes; 1 goes first.
    pub(crate) fn order(&self, row: usize) -> String {
        let wave = self.span(row).and_then(|(span, _)| match span.what {
            What::Group(branch) => Some(self.known(branch)?.wave),
            _ => Some(self.node(row)?.wave),
        });
        let wave = wave.filter(|wave| *wave > 0);
        wave.map_or_else(String::new, |wave| wave.to_string())
    }

    /// The action on the row's resources, in a word.
    pub(crate) fn does(&self, row: usize) -> Cell {
        Cell::plain(match self.span(row).map(|(span, _)| span.what) {
            Some(What::Refused) => return Cell::new("refused", Tone::Bad),
            Some(What::Run(branch, _) | What::Group(branch)) => {
                self.known(branch).map_or("", |known| match known.part {
                    PlanRole::Step => known.branch.action.as_str(),
                    part => part.word(),
                })
            }
            _ => self.node(row).map_or("", Node::does),
        })
    }

    /// The id of the row's resource, or of its blocker at another deployment.
    pub(crate) fn id(&self, row: usize) -> Option<&String> {
        let refused = || Some(&self.refusal(row)?.resource.key.id);
        let elsewhere = || Some(&self.elsewhere(row)?.id);
        let node = self.node(row).map(|node| &node.key.id);
        node.or_else(elsewhere).or_else(refused)
    }

    pub(crate) fn short_id(&self, row: usize) -> &str {
        self.id(row).map_or("", |id| short_id(id))
    }

    /// The reason why the row is part of the plan, or is refused.
    pub(crate) fn why(&self, row: usize) -> Cell {
        match self.refusal(row) {
            Some(refusal) => Cell::plain(rule_words(refusal.rule)),
            None => Cell::dim(self.node(row).map_or("", |node| &node.why)),
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

    /// The state of a step or a blocker, or the most important counts of a folded line.
    pub(crate) fn states(&self, row: usize, look: &RenderContext) -> Cell {
        if let Some(node) = self.node(row) {
            return match &node.live {
                Some(live) => look.step_state(live.state),
                None => Cell::dim(node.does()),
            };
        }
        if let Some(by) = self.elsewhere(row) {
            return match by.in_plan {
                true => Cell::dim("going"),
                false if silent_deployment(by).is_some() => Cell::new("silent", Tone::Warn),
                false => Cell::new("not going", Tone::Warn),
            };
        }
        let Some(counts) = self.counts(row) else {
            return Cell::default();
        };
        let present = |state: &StepState| counts.of(*state) > 0;
        // The most urgent state of its steps gives the glyph and the tone.
        let most_urgent = BY_URGENCY.into_iter().find(present);
        let (glyph_of_all, tone) =
            most_urgent.map_or(("", Tone::Dim), |state| look.step_glyph(state));
        // The numbers of stuck and blocked steps; if there are none, how many are gone.
        let problems = [StepState::Stuck, StepState::Blocked].into_iter();
        let mut words: Vec<String> = problems
            .filter(present)
            .map(|state| {
                let (glyph, _) = look.step_glyph(state);
                format!("{glyph} {}", thousands(counts.of(state)))
            })
            .collect();
        if words.is_empty() && !glyph_of_all.is_empty() {
            words.push(format!("{glyph_of_all} {}", progress_words(counts)));
        }
        Cell::new(words.join(" "), tone)
    }

    /// The counts of a folded line, such as `880 waiting, 9,120 gone`.
    pub(crate) fn fold_words(&self, row: usize) -> Option<String> {
        Some(counts_words(self.counts(row)?, BY_URGENCY))
    }

    /// The counts of a folded line.
    fn counts(&self, row: usize) -> Option<&Counts> {
        let What::Group(branch) = self.span(row)?.0.what else {
            return None;
        };
        Some(&self.known(branch)?.branch.counts)
    }
}

fn guides(span: &Span, is_last: bool, look: &RenderContext) -> String {
    let mut text = String::new();
    for level in 1..span.depth.min(INDENT_MAX) {
        let continues = span.bars >> level & 1 == 1;
        text.push_str(if continues {
            look.pick("│ ", "| ")
        } else {
            "  "
        });
    }
    if span.depth > 0 {
        text.push_str(match span.closes && is_last {
            true => look.pick("└ ", "` "),
            false => look.pick("├ ", "|-"),
        });
    }
    text
}
