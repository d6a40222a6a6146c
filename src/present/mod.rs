//! Texts for people, written once for all front ends: words for kinds, numbers and durations, and short
//! sentences about deletions, steps and blockers. Pure text: a front end escapes it and adds its own colours.

mod activity;
mod record;
mod sentences;
mod sheet;
mod words;

pub use activity::{activity_words, lease_words, reconciler_words, role_words, run_time};
pub use record::yaml;
pub use sentences::{
    and_more, answer_words, attempts_words, blocked_by_words, blocked_reason, blocker_words,
    blocker_words_in_full, cause_words, chart_facts, chart_last_words, chart_words, counts_words,
    deletion_state_word, event_word, pace_words, plan_options_words, plan_words, progress_words,
    purged_words, refusal_reason, relation_words, rule_words, state_words, step_reason,
    target_in_full, target_words, targets_in_full, unfinished_reason,
};
pub(crate) use sheet::columns;
pub use sheet::{Column, Sheet};
pub use words::{
    ago_words, at_path, count, duration, joined, json_words, kind_words, name_or_id, or_empty,
    range_words, resource_words, thousands, time, time_or_empty, waiting_words,
};
