//! Words for kinds, names, numbers and durations; and JSON values and records as text.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::Serialize;
use serde_json::Value;

use crate::domain::kinds::values;
use crate::domain::model::{KindName, short_id};

/// Joins the texts of these items, with `between` in each gap.
pub fn joined<T: ToString>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(between)
}

/// `floating IP` for `floating_ip`.
pub fn kind_words(kind: &KindName) -> String {
    let words = kind.as_str().split('_').map(|word| match word {
        "bgp" => "BGP",
        "bgpvpn" => "BGP VPN",
        "ike" => "IKE",
        "ip" => "IP",
        "ips" => "IPs",
        "ipsec" => "IPsec",
        "l7" => "L7",
        "ndp" => "NDP",
        "qos" => "QoS",
        "rbac" => "RBAC",
        "vpn" => "VPN",
        word => word,
    });
    joined(words, " ")
}

/// Returns the name, or the short id of a resource without a name.
pub fn name_or_id<'a>(name: &'a str, id: &'a str) -> &'a str {
    if name.is_empty() { short_id(id) } else { name }
}

/// Returns the name, or the whole id of a resource without a name.
pub fn name_or_whole_id<'a>(name: &'a str, id: &'a str) -> &'a str {
    if name.is_empty() { id } else { name }
}

/// `network web`, or `network 3b4c5d6e` without a name.
pub fn resource_words(kind: &KindName, name: &str, id: &str) -> String {
    format!("{} {}", kind_words(kind), name_or_id(name, id))
}

/// `1 step`, `12,000 steps`
pub fn count(n: impl TryInto<u64>, one: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    format!("{} {one}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// `no step waits`, `1 step waits`, `12,000 steps wait`
pub fn waiting_words(steps: u64) -> String {
    match steps {
        0 => "no step waits".to_owned(),
        1 => "1 step waits".to_owned(),
        n => format!("{} wait", count(n, "step")),
    }
}

/// `12,000`
pub fn thousands(n: impl TryInto<u64>) -> String {
    let mut text = n.try_into().unwrap_or(u64::MAX).to_string();
    for place in (1..text.len()).rev().skip(2).step_by(3) {
        text.insert(place, ',');
    }
    text
}

/// RFC 3339 in UTC, to the second.
pub fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

pub fn time_or_empty(at: Option<DateTime<Utc>>) -> String {
    at.map(time).unwrap_or_default()
}

pub fn or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// `42s`, `3m 05s`, `2h 10m`, `4d 3h`
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A range of seconds: `20-40 s`, `2-4 min`, `about 3 h`. The lower end is rounded down and the upper end up.
pub fn range_words(least: u64, most: u64) -> String {
    let units = [
        (120, 5, 1, "s"),
        (1_200, 60, 60, "min"),
        (7_200, 300, 60, "min"),
        (u64::MAX, 3_600, 3_600, "h"),
    ];
    let unit = units.into_iter().find(|(below, ..)| most < *below);
    let (_, grain, size, word) = unit.unwrap_or((0, 3_600, 3_600, "h"));
    let low = least / grain * grain / size;
    let high = most.div_ceil(grain) * grain / size;
    match low.max(1) >= high {
        true => format!("about {high} {word}"),
        false if low == 0 => format!("up to {high} {word}"),
        false => format!("{low}-{high} {word}"),
    }
}

/// An age, rounded so that its text seldom changes: `just now`, `20 s ago`, `3 min ago`, `2 h ago`.
pub fn ago_words(age: TimeDelta) -> String {
    match age.num_seconds() {
        ..10 => "just now".to_owned(),
        seconds @ 10..60 => format!("{} s ago", seconds / 10 * 10),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

/// Returns the value at a dotted path of a row, as text for a cell. As in a kinds file, `[]` steps into each
/// element of an array.
pub fn at_path<'v>(row: &'v Value, path: &str) -> String {
    if path.contains("[]") {
        return joined(values(row, path).into_iter().map(json_words), ", ");
    }
    let inner = |value: &'v Value, part: &str| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        value => value.get(part),
    };
    let value = path.split('.').try_fold(row, inner);
    value.map(json_words).unwrap_or_default()
}

/// A JSON value for a person: no quotes around a text, commas between the items of a list.
pub fn json_words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => joined(items.iter().map(json_words), ", "),
        other => other.to_string(),
    }
}

/// Writes a record as YAML. Clouds choose some of its texts and names of fields, so each passes through `safe` first.
///
/// # Errors
/// The record cannot be written; the message says why.
pub fn yaml<T: Serialize + ?Sized>(
    record: &T,
    safe: impl Fn(&str) -> Cow<'_, str>,
) -> Result<String, String> {
    let mut record = serde_json::to_value(record).map_err(|error| error.to_string())?;
    make_safe(&mut record, &safe);
    serde_saphyr::to_string(&record).map_err(|error| error.to_string())
}

fn make_safe(value: &mut Value, safe: &impl Fn(&str) -> Cow<'_, str>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(safe) = safe(text) {
                *text = safe;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| make_safe(item, safe)),
        Value::Object(members) => {
            let old = std::mem::take(members);
            for (key, mut member) in old {
                make_safe(&mut member, safe);
                members.insert(safe(&key).into_owned(), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_steps_into_arrays() {
        let row = serde_json::json!({
            "subnets": ["s1", "s2"],
            "fixed_ips": [{"ip_address": "10.0.0.5"}, {"ip_address": "fd00::5"}],
            "info": {"network_id": "n1"},
            "none": [],
        });
        for (path, words) in [
            ("subnets[]", "s1, s2"),
            ("fixed_ips[].ip_address", "10.0.0.5, fd00::5"),
            ("fixed_ips.1.ip_address", "fd00::5"),
            ("info.network_id", "n1"),
            ("none[]", ""),
            ("absent[].id", ""),
        ] {
            assert_eq!(at_path(&row, path), words, "{path}");
        }
    }

    #[test]
    fn counts_durations_ranges_and_ages_are_formatted_for_people() {
        assert_eq!(count(1, "step"), "1 step");
        assert_eq!(count(12_000, "step"), "12,000 steps");
        assert_eq!(duration(59), "59s");
        assert_eq!(duration(185), "3m 05s");
        assert_eq!(duration(90_000), "1d 1h");
        for (least, most, words) in [
            (0, 9, "up to 10 s"),
            (21, 38, "20-40 s"),
            (104, 326, "1-6 min"),
            (1_690, 4_990, "25-85 min"),
            (10_000, 10_200, "2-3 h"),
            (119, 119, "115-120 s"),
            (180, 180, "about 3 min"),
        ] {
            assert_eq!(range_words(least, most), words);
        }
        let ago = |seconds| ago_words(TimeDelta::seconds(seconds));
        assert_eq!(
            [ago(-1), ago(9), ago(27), ago(119), ago(7_200)],
            ["just now", "just now", "20 s ago", "1 min ago", "2 h ago"]
        );
    }
}
