//! The meanings of the fields of a row, for people who browse a kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Kind, Kinds};
use crate::domain::model::KindName;

/// The paths of a kind's rows whose meaning is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldMeanings {
    /// Path of the id of the resource's project.
    pub project: Option<String>,
    /// Path of the state of the resource in its cloud.
    pub state: Option<String>,
    /// Path of the time at which the resource was created.
    pub created: Option<String>,
    /// Path → kind: the path leads to the id of a resource of this kind, and a cloud has so few of these resources that
    /// all of them may be listed.
    #[serde(default)]
    pub refers_to: BTreeMap<String, KindName>,
}

impl Kinds {
    /// Returns the known meanings of the fields of a kind's rows.
    pub fn fields_of(&self, kind: &Kind) -> FieldMeanings {
        let list = kind.spec.list.as_ref();
        let columns = kind.spec.columns.iter();
        let mut columns = columns.map(|(heading, path)| (heading.as_str(), path));
        let state = columns.find(|(heading, _)| *heading == "STATUS");
        let state = state.map(|(_, path)| path);
        FieldMeanings {
            project: list.map(|list| list.project.clone()),
            state: state.or(kind.spec.deleting.keys().next()).cloned(),
            created: list.map(|list| list.created.clone()),
            refers_to: self.ids_in(kind),
        }
    }

    /// Returns the paths at which a row has the id of a resource of a kind with `few`, each with that kind.
    fn ids_in(&self, kind: &Kind) -> BTreeMap<String, KindName> {
        let references = kind.spec.references.iter().flat_map(|reference| {
            let field = reference.field.as_ref();
            let by_id = |field: &&super::Match| field.equals.as_deref() == Some("id");
            let matches = reference.matches.iter().filter(by_id);
            let matches = matches.map(|it| &it.field);
            field
                .into_iter()
                .chain(matches)
                .map(|path| (path, &reference.to))
        });
        let all = references.chain(&kind.spec.shows);
        let few = all.filter(|(_, to)| self.get(to).is_some_and(|to| to.spec.few));
        few.map(|(path, to)| (path.clone(), to.clone())).collect()
    }
}
