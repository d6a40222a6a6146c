//! The words in the rows of the tree.

use crate::domain::awaiting::silent_deployment;
use crate::domain::model::{Counts, Site, StepState};
use crate::domain::outline::BY_URGENCY;

use super::super::kit::{Cell, RenderContext, Tone};
use super::{Forest, Node, Part, Span, What};
use crate::present::{kind_words, resource_words, thousands};

/// Deeper rows are not indented further.
const INDENT_MAX: u8 = 12;

impl Forest {
    /// The name of a row with the guides of the tree, such as `  ├ port ×10,000`.
    pub(crate) fn label(&self, row: usize, look: &RenderContext) -> Cell {
        let Some((span, offset)) = self.span(row) else {
            return Cell::default();
        };
        let mut text = guides(span, offset + 1 == span.len, look);
        match span.what {
            What::Run(..) | What::Found => {
                let Some(node) = self.node(row) else {
                    text.push_str(look.pick("…", "..."));
                    return Cell::dim(text);
                };
                if self.is_folded(row, node) {
                    text.push_str(look.pick("▸ ", "> "));
                }
                text.push_str(&node.words());
                self.push_site(&node.site, &mut text);
                Cell::plain(text)
            }
            What::Group(branch) => {
                let Some(known) = self.known(branch) else {
                    return Cell::default();
                };
                text.push_str(if self.opened.contains(&branch) {
                    look.pick("▾ ", "v ")
                } else {
                    look.pick("▸ ", "> ")
                });
                text.push_str(&kind_words(&known.branch.kind));
                text.push_str(look.pick(" ×", " x"));
                text.push_str(&thousands(known.branch.counts.total));
                self.push_site(&known.branch.site, &mut text);
                Cell::new(text, Tone::Strong)
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
                    Part::Automatic => "removed by the cloud itself, no call of ours",
                    Part::Unset => "stays, and loses a reference",
                    Part::Step => "",
                },
                Tone::Strong,
            ),
        }
    }

    /// Whether the step has rows below it that are not shown.
    fn is_folded(&self, row: usize, node: &Node) -> bool {
        let Some((span, _)) = self.span(row) else {
            return false;
        };
        let What::Run(branch, _) = span.what else {
            return false;
        };
        let known = self.known(branch).filter(|known| known.opens(node));
        known.is_some_and(|known| !self.is_open(node.id, known.is_group()))
    }

    fn push_site(&self, site: &Site, text: &mut String) {
        if self.many_sites {
            text.push_str(&format!(" @{site}"));
        }
    }

    /// The action on the row's resources, in a word.
    pub(crate) fn does(&self, row: usize) -> &'static str {
        if let Some(node) = self.node(row) {
            return node.does();
        }
        match self.span(row).map(|(span, _)| span.what) {
            Some(What::Run(branch, _) | What::Group(branch)) => {
                self.known(branch).map_or("", |known| match known.part {
                    Part::Step => known.branch.action.as_str(),
                    Part::Automatic => "automatic",
                    Part::Unset => "unset",
                })
            }
            _ => "",
        }
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
        let tone = BY_URGENCY.into_iter().find(present);
        let tone = tone.map_or(Tone::Dim, |state| look.step_glyph(state).1);
        // The numbers of stuck and blocked steps; if there are none, how many are gone.
        let held = [StepState::Stuck, StepState::Blocked].into_iter();
        let mut words: Vec<String> = held
            .filter(present)
            .map(|state| {
                let (glyph, _) = look.step_glyph(state);
                format!("{glyph} {}", thousands(counts.of(state)))
            })
            .collect();
        if words.is_empty() && BY_URGENCY.iter().any(present) {
            let (glyph, _) = look.step_glyph(StepState::Gone);
            let (gone, total) = (thousands(counts.gone), thousands(counts.total));
            words.push(format!("{glyph} {gone}/{total}"));
        }
        Cell::new(words.join(" "), tone)
    }

    /// The counts of a folded line, such as `880 waiting, 9,120 gone`.
    pub(crate) fn fold_words(&self, row: usize) -> Option<String> {
        let counts = self.counts(row)?;
        let some = BY_URGENCY.into_iter().filter(|state| counts.of(*state) > 0);
        let words = some.map(|state| format!("{} {}", thousands(counts.of(state)), state.as_str()));
        Some(words.collect::<Vec<_>>().join(", "))
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
        text.push_str(if span.bars >> level & 1 == 1 {
            look.pick("│ ", "| ")
        } else {
            "  "
        });
    }
    if span.depth > 0 {
        text.push_str(if span.closes && is_last {
            look.pick("└ ", "` ")
        } else {
            look.pick("├ ", "|-")
        });
    }
    text
}
