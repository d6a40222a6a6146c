//! Rows of the registry.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::{Fallible, Stored};
use crate::domain::model::{KindName, ResourceKey};
use crate::domain::native::{Native, NativeReference};
use crate::ledger::{NativeFilter, NewNative, Referrers};

/// Reads of the registry.
pub trait NativeReads: Fallible {
    /// Loads the resources that match the filter and have a number above `after`, in the order of their numbers.
    fn find_natives(
        &self,
        filter: &NativeFilter,
        after: i64,
        limit: usize,
    ) -> Stored<Self, Vec<(i64, Native)>>;

    /// Finds the resources that refer to each of these resources from one of `fields`, pairs of a kind and a field. For
    /// each resource in `to`, names the first `named_max` references, and counts all the referring resources.
    fn find_referrers(
        &self,
        to: &[ResourceKey],
        fields: &[(KindName, String)],
        named_max: usize,
    ) -> Stored<Self, Vec<Referrers>>;
}

/// The rows of the registry. `num`: the number of a resource, by which the rows of its references name it.
pub trait NativeRows: Fallible {
    /// Loads a resource with its number.
    fn load_native(&self, key: &ResourceKey) -> Stored<Self, Option<(i64, Native)>>;

    /// Inserts a resource without its references, and returns its number.
    fn insert_native(&self, new: &NewNative, incarnation: u32) -> Stored<Self, i64>;

    /// Saves the fields of a resource. Its `updated_at` becomes later than before, even if the clock was set back.
    fn save_fields(
        &self,
        num: i64,
        fields: &Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Stored<Self>;

    /// Removes this incarnation of a resource, and returns the resource's number; none if there is no such incarnation.
    fn remove_native(&self, key: &ResourceKey, incarnation: u32) -> Stored<Self, Option<i64>>;

    /// Loads the references of a resource, each with its field.
    fn load_references(&self, num: i64) -> Stored<Self, Vec<(String, ResourceKey)>>;

    fn insert_references(&self, num: i64, references: &[NativeReference]) -> Stored<Self>;

    fn remove_reference(&self, num: i64, field: &str, to: &ResourceKey) -> Stored<Self>;

    fn remove_references(&self, num: i64) -> Stored<Self>;
}
