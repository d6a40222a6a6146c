//! Refuses statements of a kinds file that could never take effect. A guard with a mistyped path would
//! otherwise load and protect nothing.

use std::collections::BTreeMap;

use super::{ActionWord, Find, Kind, Kinds, OnDelete, OneOf, Reference};
use crate::domain::text::did_you_mean;

/// Returns the first name of a path: `fixed_ips` of `fixed_ips[].subnet_id`.
fn head(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

impl Kinds {
    /// Checks that every statement of the kind can take effect.
    ///
    /// # Errors
    /// A statement cannot take effect. If it names a field that rows never show, the message suggests the nearest
    /// field that they do show.
    pub(super) fn validate_takes_effect(&self, kind: &Kind) -> Result<(), String> {
        let spec = &kind.spec;
        if spec.stays.is_some() {
            let without_delete = [
                ("action", spec.action != ActionWord::Delete),
                ("enable", spec.enable.is_some()),
                ("settles", spec.settles.is_some()),
                ("incarnation", spec.incarnation.is_some()),
            ];
            if let Some((field, _)) = without_delete.iter().find(|(_, has)| *has) {
                return Err(format!(
                    "\"{field}\" requires \"delete\", which a kind with \"stays\" does not have"
                ));
            }
        }
        self.validate_aliases(kind)?;
        if let Some(derived) = &spec.derived
            && let Some(parent) = self.get(&derived.from)
        {
            self.validate_when("derived.when", &derived.when, parent)?;
        }
        if let Some(enable) = &spec.enable {
            self.validate_when("enable.when", &enable.when, kind)?;
        }
        for guard in &spec.guards {
            self.validate_when("guard.when", &guard.when, kind)?;
            for path in &guard.users {
                self.validate_shown("guard.users", path, kind)?;
            }
            if let Some(left_in) = &guard.left_in
                && !spec.references.iter().any(|it| it.to == *left_in)
            {
                return Err(format!(
                    "guard.left_in: this kind has no reference to \"{left_in}\""
                ));
            }
            if guard.left_in.is_none() && (guard.only_left || !guard.left_while.is_empty()) {
                return Err(
                    "guard: \"only_left\" and \"left_while\" require \"left_in\": without it the \
                     guard never applies"
                        .into(),
                );
            }
            if let Some(whole) = guard.left_in.as_ref().and_then(|of| self.get(of)) {
                self.validate_when("guard.left_while", &guard.left_while, whole)?;
            }
        }
        for remark in &spec.remarks {
            self.validate_when("remark.when", &remark.when, kind)?;
        }
        for takes in &spec.takes {
            self.validate_shown("takes.field", &takes.field, kind)?;
        }
        for (field, path) in [("incarnation", &spec.incarnation), ("owner", &spec.owner)] {
            if let Some(path) = path {
                self.validate_shown(field, path, kind)?;
            }
        }
        for field in &spec.passes {
            self.validate_shown("passes", field, kind)?;
        }
        let mut references = spec.references.iter();
        references.try_for_each(|reference| self.validate_reference_paths(kind, reference))
    }

    fn validate_reference_paths(&self, kind: &Kind, reference: &Reference) -> Result<(), String> {
        let to = &reference.to;
        let called = |field: &str| format!("reference to \"{to}\": {field}");
        self.validate_when(&called("when"), &reference.when, kind)?;
        if let Some(field) = &reference.field {
            self.validate_shown(&called("field"), field, kind)?;
        }
        for rule in &reference.matches {
            self.validate_shown(&called("match.field"), &rule.field, kind)?;
        }
        if let Some(shown_by) = &reference.shown_by {
            let shows = |shown: &Kind| shown.spec.references.iter().any(|it| it.to == kind.name);
            if !self.get(shown_by).is_some_and(shows) {
                return Err(called(&format!(
                    "shown_by: \"{shown_by}\" has no reference to this kind, so it cannot show the referrers"
                )));
            }
        }
        if reference.unpinned_by.is_some() && reference.on_delete != OnDelete::Block {
            return Err(called(
                "\"unpinned_by\" requires on_delete = \"block\": no other reference blocks its \
                 target",
            ));
        }
        let Some(target) = self.get(to) else {
            return Ok(());
        };
        for rule in &reference.matches {
            if let Some(path) = &rule.equals {
                self.validate_shown(&called("match.equals"), path, target)?;
            }
            if let Some(path) = &rule.in_cidr {
                self.validate_shown(&called("match.in_cidr"), path, target)?;
            }
            if let Some(path) = &rule.below {
                self.validate_shown(&called("match.below"), path, target)?;
            }
        }
        self.validate_when(&called("to_when"), &reference.to_when, target)?;
        if let Some(find) = &reference.find {
            self.validate_shown(&called("find.of"), &find.of, target)?;
            self.validate_when(&called("find.when"), &find.when, target)?;
            self.validate_in_scope(&called("find.in_scope"), find, kind, target)?;
        }
        Ok(())
    }

    /// Checks for a filter with `in_scope` that the kind has a scope (`list.scope`), and that the target's rows have
    /// the scope's field.
    fn validate_in_scope(
        &self,
        called: &str,
        find: &Find,
        kind: &Kind,
        target: &Kind,
    ) -> Result<(), String> {
        if !find.in_scope {
            return Ok(());
        }
        let list = self.listed(kind).spec.list.as_ref();
        match list.and_then(|list| list.scope.as_ref()) {
            Some(scope) => self.validate_shown(called, scope, target),
            None => Err(format!("{called} requires \"list.scope\"")),
        }
    }

    /// Rejects an alias that is also the name or an alias of another kind, because the typed word would be ambiguous.
    /// Kinds of two different providers may share a word: there the site decides. A native kind has no provider.
    fn validate_aliases(&self, kind: &Kind) -> Result<(), String> {
        for alias in &kind.spec.aliases {
            let is_elsewhere = |other: &Kind| match (other.provider, kind.provider) {
                (Some(other), Some(own)) => other != own,
                (None, _) | (_, None) => false,
            };
            let others = self.iter().filter(|other| other.name != kind.name);
            let mut others = others.filter(|other| !is_elsewhere(other));
            if let Some(other) = others
                .find(|other| other.short_name() == alias || other.spec.aliases.contains(alias))
            {
                return Err(format!(
                    "aliases: \"{alias}\" is already a name of the kind \"{}\"",
                    other.name
                ));
            }
        }
        Ok(())
    }

    fn validate_when(
        &self,
        field: &str,
        when: &BTreeMap<String, OneOf>,
        kind: &Kind,
    ) -> Result<(), String> {
        for (path, wanted) in when {
            self.validate_shown(field, path, kind)?;
            if matches!(wanted, OneOf::Any(any) if any.is_empty()) {
                return Err(format!(
                    "{field}: \"{path}\" has an empty list of values, and never matches"
                ));
            }
        }
        Ok(())
    }

    /// Checks that rows of the kind show the first name of the path. A kind that lists no fields may show
    /// any.
    fn validate_shown(&self, field: &str, path: &str, kind: &Kind) -> Result<(), String> {
        let name = head(path);
        let spec = &kind.spec;
        let shown: Vec<&str> = match (&spec.derived, &spec.list) {
            (Some(derived), _) => {
                let joined = derived.join.iter().flat_map(|join| &join.take);
                let set = derived.set.keys().chain(joined);
                set.map(String::as_str).collect()
            }
            (None, Some(list)) if !list.fields.is_empty() => {
                list.fields.iter().map(String::as_str).collect()
            }
            (None, _) => return Ok(()),
        };
        if name == "id" || shown.contains(&name) {
            return Ok(());
        }
        let of = match spec.derived.is_some() {
            true => "derived.set",
            false => "list.fields",
        };
        Err(format!(
            "{field}: \"{path}\" is not among {of} of \"{}\", so it would never be read{}",
            kind.name,
            did_you_mean(name, shown)
        ))
    }
}
