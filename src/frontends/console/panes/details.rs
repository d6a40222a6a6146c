//! All fields of one resource, as the cloud listed it.

use serde_json::Value;

use super::super::keys::{Action, Scope};
use super::super::look::{Cell, RenderContext, json_words};
use super::super::rows::{Row, Rows};
use super::list_pane::{ListPane, Refresh};
use super::{Column, Context, Table, show};
use crate::domain::filter::SearchQuery;
use crate::domain::model::Resource;
use crate::present::{kind_words, name_or_id};

/// Depth below which a value takes one line.
const DEPTH_MAX: usize = 4;

pub(crate) struct DetailsPane {
    title: String,
    rows: Rows<Field>,
}

/// A field: its path in the resource, and its value in words.
type Field = (String, String);

impl Row for Field {
    type Key = String;

    fn key(&self) -> String {
        self.0.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        let (name, value) = self;
        filter.fits_texts(&[name.as_str(), value])
    }
}

impl DetailsPane {
    pub(crate) fn of(row: &Resource) -> Self {
        let mut fields = vec![
            ("site".to_owned(), row.key.site.to_string()),
            ("kind".to_owned(), row.key.kind.to_string()),
            ("id".to_owned(), row.key.id.clone()),
            ("name".to_owned(), row.name.clone()),
            ("project".to_owned(), row.project_id.clone()),
            ("tags".to_owned(), row.tags.join(", ")),
        ];
        flatten("", &row.attributes, 0, &mut fields);
        let known = ["id", "name", "tags"];
        let mut at = 0;
        fields.retain(|(name, _)| {
            at += 1;
            at <= 6 || !known.contains(&name.as_str())
        });
        let name = name_or_id(&row.name, &row.key.id);
        Self {
            title: format!("{} {name}", kind_words(&row.key.kind)),
            rows: Rows::of(fields),
        }
    }
}

fn flatten(path: &str, value: &Value, depth: usize, fields: &mut Vec<(String, String)>) {
    let join = |part: &str| {
        if path.is_empty() {
            part.to_owned()
        } else {
            format!("{path}.{part}")
        }
    };
    match value {
        Value::Object(map) if depth < DEPTH_MAX && !map.is_empty() => {
            for (name, inner) in map {
                flatten(&join(name), inner, depth + 1, fields);
            }
        }
        Value::Array(items)
            if depth < DEPTH_MAX && items.iter().any(|i| i.is_object() || i.is_array()) =>
        {
            for (index, inner) in items.iter().enumerate() {
                flatten(&join(&index.to_string()), inner, depth + 1, fields);
            }
        }
        other => fields.push((path.to_owned(), json_words(other))),
    }
}

impl ListPane for DetailsPane {
    type Row = Field;
    const SCOPE: Scope = Scope::Reading;
    const NOUN: &'static str = "field";
    const REFRESH: Refresh = Refresh::Never;
    const LOADING: &'static str = "";

    fn rows(&self) -> &Rows<Field> {
        &self.rows
    }
    fn rows_mut(&mut self) -> &mut Rows<Field> {
        &mut self.rows
    }
    fn heading(&self) -> String {
        self.title.clone()
    }
    fn table(&self, look: &RenderContext) -> Table<Self::Row> {
        let width = (look.width / 3).clamp(8, 32);
        Table(vec![
            show(Column::fixed("FIELD", width), |(name, _), _| {
                Cell::dim(name)
            }),
            show(Column::flex("VALUE", 1), |(_, value), _| Cell::plain(value)),
        ])
    }
    fn details(&self, (name, value): &Field, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain(format!("{name}: {value}"))]
    }
    fn none(_look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain("There is no field to show.")]
    }
    fn act_on(&mut self, action: Action, context: &mut Context<'_>) {
        if let (Action::Copy, Some((_, value))) = (action, self.rows.current()) {
            context.copy(value.clone());
        }
    }
}
