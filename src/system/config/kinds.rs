//! Resolves the kinds in the settings, each of which a person writes by name or alias.

use std::collections::BTreeMap;

use super::{GcKindSettings, Settings};
use crate::domain::kinds::Kinds;

/// Replaces each kind in the settings, possibly an alias, with the kind's full name, which resources and steps use.
///
/// # Errors
/// A setting names an unknown kind, or two keys of `gc.kind` name the same kind. The error is the key of the first such
/// setting, and the reason.
pub fn resolve_kinds(settings: &mut Settings, kinds: &Kinds) -> Result<(), (String, String)> {
    for (position, rule) in settings.guard.protect.iter_mut().enumerate() {
        if let Some(kind) = &mut rule.kind {
            let key = || format!("guard.protect[{position}].kind");
            *kind = full_name(kinds, kind).map_err(|why| (key(), why))?;
        }
    }
    let mut own: BTreeMap<String, GcKindSettings> = BTreeMap::new();
    for (kind, values) in std::mem::take(&mut settings.gc.kind) {
        let key = format!("gc.kind.{kind}");
        let name = full_name(kinds, &kind).map_err(|why| (key.clone(), why))?;
        let twice = format!(
            "names the kind {name}, as another key of gc.kind does; keep only one of the two"
        );
        if own.insert(name, values).is_some() {
            return Err((key, twice));
        }
    }
    settings.gc.kind = own;
    Ok(())
}

fn full_name(kinds: &Kinds, word: &str) -> Result<String, String> {
    let kind = kinds.resolve(word)?;
    Ok(kind.name.as_str().to_owned())
}
