//! A setting whose value cannot work.

/// Returns the key of a setting, and what is wrong with its value.
pub(super) fn nonsense(key: &str, message: &str) -> Option<(String, String)> {
    Some((key.to_owned(), message.to_owned()))
}
