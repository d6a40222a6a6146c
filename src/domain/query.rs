//! Requests for rows: a kind at a site, and a filter by which its rows are found.

use super::model::{KindName, Site};

/// A listing that the planner needs: all rows of a listed kind, or those that a filter finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lookup {
    pub site: Site,
    /// A listed kind.
    pub kind: KindName,
    pub filter: Option<ListFilter>,
}

/// Rows whose `key` has one of the values. The client splits the values over as many calls as the length of a
/// URL requires.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListFilter {
    pub key: String,
    pub values: Vec<String>,
}

/// The key of a filter by id, whatever field of a row has the id.
pub const BY_ID: &str = "id";

impl ListFilter {
    /// Finds rows by their ids.
    pub fn by_ids(ids: impl IntoIterator<Item = String>) -> Self {
        Self {
            key: BY_ID.to_owned(),
            values: ids.into_iter().collect(),
        }
    }
}
