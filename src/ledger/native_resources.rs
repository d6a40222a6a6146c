//! The resources that this deployment keeps itself, and their references.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Cursor, LedgerError};
use crate::domain::kinds::Kind;
use crate::domain::model::{Blocker, KindName, Paged, ResourceKey, Site};
use crate::domain::native::{self, Native};

/// Reads of the registry's resources.
#[async_trait]
pub trait NativeResources: Send + Sync {
    /// Lists the resources of the registry that the filter selects, in the order in which they were added.
    async fn native(
        &self,
        filter: NativeFilter,
        page: Cursor,
    ) -> Result<Paged<Native>, LedgerError>;

    /// Finds the registry resources that refer to each of these resources from one of `fields`, each given as
    /// kind and field. Names the first `named_max` references, and counts all the referring resources.
    async fn referrers(
        &self,
        to: Vec<ResourceKey>,
        fields: Arc<[(KindName, String)]>,
        named_max: usize,
    ) -> Result<Vec<Referrers>, LedgerError>;
}

/// Selects registry resources of one kind at one site, which is the deployment itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeFilter {
    pub site: Site,
    pub kind: KindName,
    pub by: NativeBy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NativeBy {
    All,
    Ids(Vec<String>),
    /// A field has one of these values.
    Field {
        field: String,
        values: Vec<String>,
    },
    /// A field refers to one of these resources.
    RefersTo {
        field: String,
        to: Vec<ResourceKey>,
    },
}

impl NativeBy {
    /// Selects the resources with one of these values in a field. If the field is a reference, the values are
    /// the resources to which it refers.
    pub fn of(kind: &Kind, field: &str, values: Vec<String>, home: &Site) -> Self {
        let field = field.to_owned();
        match native::refers_to(kind, &field) {
            Some(to) => Self::RefersTo {
                to: values
                    .iter()
                    .map(|value| native::key_of(value, to, home))
                    .collect(),
                field,
            },
            None => Self::Field { field, values },
        }
    }
}

/// A registry resource, and one resource to which it refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    pub key: ResourceKey,
    pub name: String,
    pub to: ResourceKey,
    pub field: String,
}

impl Referrer {
    /// Returns the referrer as a blocker of the resource to which it refers. The blocker is not in the plan.
    pub fn blocker(&self) -> Blocker {
        Blocker::of(&self.key, &self.name)
    }
}

/// The registry resources that refer to one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Referrers {
    pub named: Vec<Referrer>,
    pub count: u64,
}
