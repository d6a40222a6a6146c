//! Conditions of a filter.

use tokio_postgres::types::ToSql;

type Value = Box<dyn ToSql + Sync>;

/// Conditions joined by AND, each after an AND, and their values in order.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds a condition, in which each `?` stands for the next of these values.
    pub(super) fn and<const N: usize>(&mut self, condition: &str, values: [Value; N]) {
        self.sql.push_str(" AND ");
        let mut values = values.into_iter();
        for (at, part) in condition.split('?').enumerate() {
            if at > 0 {
                self.values.extend(values.next());
                self.sql.push_str(&format!("${}", self.values.len()));
            }
            self.sql.push_str(part);
        }
    }

    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value).collect()
    }
}
