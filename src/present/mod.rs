//! Texts for people, written once for all front ends: words for kinds, numbers and durations, and short
//! sentences about deletions, steps and blockers. Pure text: a front end escapes it and adds its own colours.

mod sentences;
mod words;

pub use sentences::{
    answer_words, attempts_words, blocked_by_words, blocker_words, blocker_words_in_full,
    cause_words, event_word, pace_words, progress_words, purged_words, rule_words, state_words,
    target_in_full, target_words, targets_in_full,
};
pub use words::{count, duration, kind_words, name_or_id, resource_words, thousands, time};
