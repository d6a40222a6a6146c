//! The filters of a list: all keys of the query without another meaning.
use chrono::{DateTime, Utc};

use super::image::{Image, same};
use super::refusal::{bad, internal_error};
use crate::sandbox::wire::Result;

/// Whether an image passes one filter.
pub(super) type Condition = Box<dyn Fn(&Image) -> bool>;

const NUMBERS: [&str; 4] = ["size", "virtual_size", "min_disk", "min_ram"];

/// Returns the conditions of a query. The last value of a repeated key counts.
pub(super) fn conditions(filters: &[(String, String)]) -> Result<Vec<Condition>> {
    // Hidden images are shown only on request.
    let hidden = filters.iter().find(|(key, _)| key == "os_hidden");
    let hidden = hidden.map_or("false", |(_, value)| value);
    let wanted = flag("os_hidden", hidden, &hidden.to_lowercase())?;
    let mut conditions: Vec<Condition> = vec![Box::new(move |image| image.hidden == wanted)];
    if let Some((_, value)) = filters.iter().find(|(key, _)| key == "protected") {
        let wanted = flag("protected", value, value)?;
        conditions.push(Box::new(move |image| image.protected == wanted));
    }
    for (key, value) in filters {
        // `deleted` is always overruled.
        if !matches!(key.as_str(), "os_hidden" | "protected" | "deleted") {
            conditions.push(condition(key, value)?);
        }
    }
    Ok(conditions)
}

fn flag(key: &str, given: &str, word: &str) -> Result<bool> {
    match word {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(format!(
            "Invalid value '{given}' for '{key}' filter. Valid values are 'true' or 'false'."
        ))),
    }
}

fn condition(key: &str, value: &str) -> Result<Condition> {
    if key.ends_with("_min") || key.ends_with("_max") {
        return bound(key, value);
    }
    match key {
        "created_at" | "updated_at" => moment(key, value),
        "name" | "id" | "status" | "container_format" | "disk_format" => words(key, value),
        // Glance's code treats these as columns, and fails to compare them.
        "properties" | "locations" | "members" => Err(internal_error()),
        _ if NUMBERS.contains(&key) => {
            let (key, wanted) = (key.to_owned(), as_number(value));
            Ok(Box::new(move |image| number(image, &key) == Some(wanted)))
        }
        "visibility" if value == "all" => Ok(Box::new(|_| true)),
        _ => Ok(text_condition(key, value)),
    }
}

fn text_condition(key: &str, value: &str) -> Condition {
    let (key, wanted) = (key.to_owned(), value.to_owned());
    if is_column(&key) {
        return Box::new(move |image| column(image, &key).is_some_and(|is| same(&is, &wanted)));
    }
    // An unknown property matches no image.
    Box::new(move |image| {
        let mut properties = image.properties.iter();
        properties.any(|(name, value)| {
            same(name, &key) && value.as_str().is_some_and(|is| same(is, &wanted))
        })
    })
}

fn is_column(key: &str) -> bool {
    matches!(
        key,
        "name"
            | "id"
            | "status"
            | "container_format"
            | "disk_format"
            | "owner"
            | "visibility"
            | "checksum"
            | "os_hash_algo"
            | "os_hash_value"
    )
}

/// Returns a text column. Lists sort by some of them.
pub(super) fn column(image: &Image, key: &str) -> Option<String> {
    let text = match key {
        "name" => image.name.as_deref(),
        "status" => Some(image.status.name()),
        "container_format" => image.container_format.as_deref(),
        "disk_format" => image.disk_format.as_deref(),
        "owner" => image.owner.as_deref(),
        "visibility" => Some(image.visibility.name()),
        "checksum" => image.checksum(),
        "os_hash_algo" => image.hash().map(|_| "sha512"),
        "os_hash_value" => image.hash(),
        _ => return Some(image.id.to_string()),
    };
    text.map(str::to_owned)
}

fn number(image: &Image, key: &str) -> Option<i64> {
    match key {
        "min_disk" => Some(image.min_disk),
        "min_ram" => Some(image.min_ram),
        "size" => image.size().and_then(|size| size.try_into().ok()),
        _ => image.virtual_size().and_then(|size| size.try_into().ok()),
    }
}

/// Reads a number as the database does, ignoring what follows: `7x` is 7, `x` is 0.
fn as_number(text: &str) -> i64 {
    let text = text.trim_start();
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default().parse().unwrap_or(0)
}

/// Parses `size_min=5` (at least) or `size_max=5` (at most).
fn bound(key: &str, value: &str) -> Result<Condition> {
    let limit: i64 = value
        .trim()
        .parse()
        .map_err(|_| bad("Unable to filter on a range with a non-numeric value."))?;
    let (column, least) = match key.strip_suffix("_min") {
        Some(column) => (column, true),
        None => (key.trim_end_matches("_max"), false),
    };
    if !NUMBERS.contains(&column) {
        return Err(internal_error());
    }
    let column = column.to_owned();
    Ok(Box::new(move |image| {
        number(image, &column).is_some_and(|is| if least { is >= limit } else { is <= limit })
    }))
}

/// Parses `gt:2026-01-01T00:00:00Z`, or a time alone.
fn moment(key: &str, value: &str) -> Result<Condition> {
    let (operator, text) = match value.split_once(':') {
        Some((operator, text)) if time(value).is_none() => (operator, text),
        _ => ("eq", value),
    };
    let Some(limit) = time(text) else {
        return Err(bad(format!(
            "Bad \"{key}\" query filter format. Use ISO 8601 DateTime notation."
        )));
    };
    let fits: fn(DateTime<Utc>, DateTime<Utc>) -> bool = match operator {
        "gt" => |is, limit| is > limit,
        "gte" => |is, limit| is >= limit,
        "lt" => |is, limit| is < limit,
        "lte" => |is, limit| is <= limit,
        "neq" => |is, limit| is != limit,
        "eq" => |is, limit| is == limit,
        _ => return Err(bad("Unable to filter on a unknown operator.")),
    };
    let created = key == "created_at";
    Ok(Box::new(move |image| {
        fits(
            if created {
                image.created
            } else {
                image.updated
            },
            limit,
        )
    }))
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.to_utc())
}

/// Parses `name=A`, `name=eq:A` or `name=in:A,B`.
fn words(key: &str, value: &str) -> Result<Condition> {
    let wanted = match value.split_once(':') {
        None => vec![value.to_owned()],
        Some(("eq", word)) => vec![word.to_owned()],
        Some(("in", list)) => quoted(list)?,
        Some((operator, _)) => {
            return Err(bad(format!(
                "Unable to filter by unknown operator '{operator}'."
            )));
        }
    };
    let key = key.to_owned();
    Ok(Box::new(move |image| {
        column(image, &key).is_some_and(|is| wanted.iter().any(|word| same(word, &is)))
    }))
}

/// Parses a list with quotes: `A,"B,C"` is A and `B,C`.
fn quoted(list: &str) -> Result<Vec<String>> {
    let refused = |problem: &str| bad(format!("Invalid filter value {list}. {problem}"));
    let mut words = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let word;
        (word, rest) = match rest.strip_prefix('"') {
            None => rest.split_once(',').unwrap_or((rest, "")),
            Some(inner) => {
                let (word, after) = inner
                    .split_once('"')
                    .ok_or_else(|| refused("The quote is not closed."))?;
                let after = match after.strip_prefix(',') {
                    Some(after) => after,
                    None if after.is_empty() => after,
                    None => {
                        return Err(refused("There is no comma after closing quotation mark."));
                    }
                };
                (word, after)
            }
        };
        words.push(word.to_owned());
    }
    Ok(words)
}
