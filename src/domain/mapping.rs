//! Copies of a resource at other sites, which are deleted with it.
//!
//! A *local* site copies a resource of the *central* site, and copies it again whenever somebody reads it. So
//! the deletion of an original also deletes each copy, with a cascade of its own. The original is deleted
//! last: readers learn from its tombstone that it is being deleted, and the tombstone ends with the last copy
//! (T9, T12).

use serde::{Deserialize, Serialize};

use super::kinds::Kind;
use super::model::{CopiedBy, Resource, Site};
use super::query::ListFilter;

/// The prefix of a copy's tag; the original's id follows.
pub const COPY_TAG: &str = "gone:copy-of=";

/// The sites that have copies of a central site's resources, and how copies are recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    pub central: Site,
    pub locals: Vec<Site>,
    #[serde(default, rename = "match")]
    pub by: CopiedBy,
}

impl CopiedBy {
    /// Returns the filter that lists the copies of these resources; none if their kind cannot have copies, or has no
    /// filter for them.
    pub fn filter<'r>(
        self,
        kind: &Kind,
        originals: impl IntoIterator<Item = &'r Resource>,
    ) -> Option<ListFilter> {
        let list = kind.spec.list.as_ref()?;
        if list.within.is_some() || kind.spec.in_all_regions {
            return None;
        }
        let originals = originals.into_iter();
        if self != Self::Name {
            return self.filter_for(kind, originals.map(|original| original.key.id.as_str()));
        }
        let names = originals.map(|original| original.name.clone());
        Some(ListFilter {
            key: list.name.clone(),
            values: names.filter(|name| !name.is_empty()).collect(),
        })
    }

    /// Returns the filter that lists the copies of originals with these ids. None if copies are recognised only by
    /// name, which is not certain, or if the kind has no such filter.
    pub fn filter_for<'i>(
        self,
        kind: &Kind,
        ids: impl IntoIterator<Item = &'i str>,
    ) -> Option<ListFilter> {
        let ids = ids.into_iter();
        match self {
            Self::Tag => Some(ListFilter {
                key: kind.spec.list.as_ref()?.tagged.clone()?,
                values: ids.map(|id| format!("{COPY_TAG}{id}")).collect(),
            }),
            Self::Id => Some(ListFilter {
                key: kind.id_filter()?.to_owned(),
                values: ids.map(str::to_owned).collect(),
            }),
            Self::Name => None,
        }
    }

    /// Returns the id of the original of which this resource is certainly a copy; none for copies by name, or if the
    /// resource has no tag of a copy.
    pub fn original_of(self, copy: &Resource) -> Option<&str> {
        match self {
            Self::Tag => original_of(&copy.tags),
            Self::Id => Some(&copy.key.id),
            Self::Name => None,
        }
    }

    /// Whether one resource is a copy of the other, apart from their projects. A project has another id in another
    /// cloud, so the caller compares the projects of copies by name.
    pub fn fits(self, original: &Resource, copy: &Resource) -> bool {
        original.key.kind == copy.key.kind
            && match self {
                Self::Tag => original_of(&copy.tags) == Some(&original.key.id),
                Self::Name => !copy.name.is_empty() && original.name == copy.name,
                Self::Id => original.key.id == copy.key.id,
            }
    }
}

/// Returns the id of the original that a copy with these tags names; none if no tag names one.
pub fn original_of(tags: &[impl AsRef<str>]) -> Option<&str> {
    let mut tags = tags.iter();
    tags.find_map(|tag| tag.as_ref().strip_prefix(COPY_TAG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t14_only_the_copy_of_tag_names_the_original_of_a_copy() {
        let cases: [(&[&str], Option<&str>); 4] = [
            (&["gone:copy-of=4fdb"], Some("4fdb")),
            (&["keep", "gone:copy-of=4fdb"], Some("4fdb")),
            (&["copy-of=4fdb", "gone:copy-of"], None),
            (&[], None),
        ];
        for (tags, expected) in cases {
            assert_eq!(original_of(tags), expected, "{tags:?}");
        }
    }
}
