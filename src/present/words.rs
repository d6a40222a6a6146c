//! Words for kinds, names, numbers and durations.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use crate::domain::model::{KindName, short_id};

/// `floating IP` for `floating_ip`.
pub fn kind_words(kind: &KindName) -> String {
    let words: Vec<&str> = kind
        .as_str()
        .split('_')
        .map(|word| match word {
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
        })
        .collect();
    words.join(" ")
}

/// The name, or the short id of a resource without a name.
pub fn name_or_id<'a>(name: &'a str, id: &'a str) -> &'a str {
    if name.is_empty() { short_id(id) } else { name }
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

pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// RFC 3339 in UTC, to the second.
pub fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
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

/// Returns the value at a dotted path of a row, as text for a cell.
pub fn at_path<'v>(row: &'v Value, path: &str) -> String {
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
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json_words).collect();
            items.join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_read_easily() {
        assert_eq!(count(1, "step"), "1 step");
        assert_eq!(count(12_000, "step"), "12,000 steps");
        assert_eq!(duration(59), "59s");
        assert_eq!(duration(185), "3m 05s");
        assert_eq!(duration(90_000), "1d 1h");
    }
}
