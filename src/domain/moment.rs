//! A point in time as people write it: a time of day, a full date and time, or an offset.

use chrono::{DateTime, NaiveDateTime, NaiveTime, TimeDelta, Utc};

use super::duration;

/// Parses `03:12:07` or `03:12` as a time of day in UTC, on the day of `from`; `2026-11-24T03:12:07Z`, in UTC if the
/// text has no zone; `-10m` or `+1h` as an offset from `from`.
///
/// # Errors
/// The text is none of these; the message gives examples.
pub fn parse(text: &str, from: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    let text = text.trim();
    let relative = |length: &str| {
        let length = duration::parse(length).ok()?;
        TimeDelta::from_std(length).ok()
    };
    let found = if let Some(length) = text.strip_prefix('-') {
        relative(length).and_then(|length| from.checked_sub_signed(length))
    } else if let Some(length) = text.strip_prefix('+') {
        relative(length).and_then(|length| from.checked_add_signed(length))
    } else if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        Some(at.to_utc())
    } else {
        let formats = ["%FT%T%.f", "%F %T%.f", "%FT%R", "%F %R"];
        let whole = formats.iter().find_map(|format| {
            let at = NaiveDateTime::parse_from_str(text, format);
            at.ok()
        });
        let of_day = ["%T%.f", "%R"].iter().find_map(|format| {
            let at = NaiveTime::parse_from_str(text, format);
            at.ok()
        });
        whole
            .or_else(|| of_day.map(|at| from.date_naive().and_time(at)))
            .map(|at| at.and_utc())
    };
    found.ok_or_else(|| {
        format!("\"{text}\" is not a time; write 03:12:07, 2026-11-24T03:12:07Z or -10m")
    })
}
