//! How the rows of the tree read.

use crate::domain::model::{Site, StepState};

use super::super::super::look::{Cell, Look, Tone, kind_words, thousands};
use super::{Forest, Part, Row, What};

/// Deeper rows are not indented further.
const INDENT_MAX: u8 = 12;

impl Forest {
    /// `  ├ port ×10,000`, with the guides of the tree.
    pub(crate) fn label(&self, row: usize, look: &Look) -> Cell {
        let Some(Row {
            what,
            depth,
            last,
            bars,
        }) = self.rows.get(row).copied()
        else {
            return Cell::default();
        };
        let mut text = String::new();
        for level in 1..depth.min(INDENT_MAX) {
            text.push_str(if bars >> level & 1 == 1 {
                look.pick("│ ", "| ")
            } else {
                "  "
            });
        }
        if depth > 0 {
            text.push_str(if last {
                look.pick("└ ", "` ")
            } else {
                look.pick("├ ", "|-")
            });
        }
        match what {
            What::Node(index) => {
                let node = &self.nodes[index as usize];
                if self.closed.contains(&node.id) && node.part == Part::Step {
                    text.push_str(look.pick("▸ ", "> "));
                }
                text.push_str(&node.words());
                self.push_site(&node.site, &mut text);
                Cell::plain(text)
            }
            What::Group(index) => {
                let group = &self.groups[index as usize];
                text.push_str(if self.opened.contains(&group.key) {
                    look.pick("▾ ", "v ")
                } else {
                    look.pick("▸ ", "> ")
                });
                text.push_str(&kind_words(&group.key.kind));
                text.push_str(look.pick(" ×", " x"));
                text.push_str(&thousands(group.members.len() as u64));
                self.push_site(&group.key.site, &mut text);
                Cell::new(text, Tone::Strong)
            }
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

    fn push_site(&self, site: &Site, text: &mut String) {
        if self.many_sites {
            text.push_str(&format!(" @{site}"));
        }
    }

    /// What is done to the row, in a word.
    pub(crate) fn does(&self, row: usize) -> &'static str {
        match self.rows.get(row).map(|row| row.what) {
            Some(What::Node(index)) => self.nodes[index as usize].does(),
            Some(What::Group(index)) => {
                let members = &self.groups[index as usize].members;
                members
                    .first()
                    .map_or("", |m| self.nodes[*m as usize].does())
            }
            _ => "",
        }
    }

    /// The state of a step, or of a folded line how many are in which.
    pub(crate) fn states(&self, row: usize, look: &Look) -> Cell {
        match self.rows.get(row).map(|row| row.what) {
            Some(What::Node(index)) => {
                let node = &self.nodes[index as usize];
                match &node.live {
                    Some(live) => look.step_state(live.state),
                    None => Cell::dim(node.does()),
                }
            }
            Some(What::Group(index)) => {
                let group = &self.groups[index as usize];
                let tone = group
                    .tally
                    .first()
                    .map_or(Tone::Dim, |(state, _)| look.step_glyph(*state).1);
                let total = thousands(group.members.len() as u64);
                let of = |wanted| group.tally.iter().find(|(state, _)| *state == wanted);
                // What needs a person, or else how many are done.
                let held = [StepState::Stuck, StepState::Blocked]
                    .into_iter()
                    .filter_map(of);
                let mut words: Vec<String> = held
                    .map(|(state, n)| format!("{} {}", look.step_glyph(*state).0, thousands(*n)))
                    .collect();
                if words.is_empty() && !group.tally.is_empty() {
                    let gone = of(StepState::Gone).map_or(0, |(_, n)| *n);
                    let glyph = look.step_glyph(StepState::Gone).0;
                    words.push(format!("{glyph} {}/{total}", thousands(gone)));
                }
                Cell::new(words.join(" "), tone)
            }
            _ => Cell::default(),
        }
    }

    /// `9,120 gone, 880 waiting`: what a folded line holds.
    pub(crate) fn fold_words(&self, row: usize) -> Option<String> {
        let What::Group(index) = self.rows.get(row)?.what else {
            return None;
        };
        let group = &self.groups[index as usize];
        let words: Vec<String> = group
            .tally
            .iter()
            .map(|(state, n)| format!("{} {}", thousands(*n), state.as_str()))
            .collect();
        Some(words.join(", "))
    }
}
