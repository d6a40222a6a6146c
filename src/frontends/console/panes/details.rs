//! One resource, whole, as the cloud listed it.

use serde_json::Value;
use std::borrow::Cow;

use crate::domain::model::Resource;

use super::super::keys::{Action, Scope};
use super::super::list::List;
use super::super::look::{Cell, RenderContext, json_words};
use super::{Column, Context, Pane};
use crate::present::{kind_words, name_or_id};

/// Deeper values stand on one line.
const DEPTH_MAX: usize = 4;

pub(crate) struct DetailsPane {
    title: String,
    list: List,
    fields: Vec<(String, String)>,
    visible: Vec<usize>,
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
            list: List::default(),
            visible: (0..fields.len()).collect(),
            fields,
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

impl Pane for DetailsPane {
    fn scope(&self) -> Scope {
        Scope::Reading
    }
    fn title(&self, _look: &RenderContext) -> String {
        self.title.clone()
    }
    fn list(&self) -> &List {
        &self.list
    }
    fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
    fn len(&self) -> usize {
        self.visible.len()
    }
    fn columns(&self, look: &RenderContext) -> Vec<Column> {
        vec![
            Column::fixed("FIELD", (look.width / 3).clamp(8, 32)),
            Column::flex("VALUE", 1),
        ]
    }
    fn cells(&self, row: usize, _look: &RenderContext) -> Vec<Cell> {
        let Some((name, value)) = self.visible.get(row).map(|i| &self.fields[*i]) else {
            return Vec::new();
        };
        vec![Cell::dim(name), Cell::plain(value)]
    }
    fn detail(&self, _look: &RenderContext) -> Vec<Cell> {
        let field = self.visible.get(self.list.cursor);
        let field = field.map(|i| &self.fields[*i]);
        field.map_or_else(Vec::new, |(name, value)| {
            vec![Cell::plain(format!("{name}: {value}"))]
        })
    }
    fn detail_rows(&self) -> u16 {
        3
    }
    fn noun(&self) -> Cow<'static, str> {
        "field".into()
    }
    fn nothing(&self, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain("There is no field to show.")]
    }
    fn filter_changed(&mut self) {
        self.visible = (0..self.fields.len())
            .filter(|i| {
                let (name, value) = &self.fields[*i];
                self.list.filter.fits_texts(&[name.as_str(), value])
            })
            .collect();
    }
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action == Action::Copy
            && let Some(index) = self.visible.get(self.list.cursor)
        {
            context.copy(self.fields[*index].1.clone());
        }
    }
}
