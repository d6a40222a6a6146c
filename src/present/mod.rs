//! Texts for people, written once for all front ends: words for kinds, numbers and durations, and short
//! sentences about deletions, steps and blockers. Pure text: a front end escapes it and adds its own colours.

mod activity;
mod sentences;
mod sheet;
mod words;

pub use activity::*;
pub use sentences::*;
pub(crate) use sheet::columns;
pub use sheet::{Column, Sheet};
pub use words::*;
