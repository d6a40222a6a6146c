//! All fields of one resource, as the cloud listed it.

use serde_json::Value;

use super::kit::*;
use crate::domain::model::Resource;
use crate::present::{json_words, resource_words};

/// Depth of nesting from which a whole value takes one line.
const DEPTH_MAX: usize = 4;

struct DetailsPane {
    title: String,
    resource: Box<Resource>,
    listed_at: DateTime<Utc>,
}

/// A field: its path in the resource, and its value in words.
type Field = (String, String);

impl Row for Field {
    fn key(&self) -> String {
        self.0.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.0.as_str(), &self.1])
    }
}

/// Shows a resource that was listed at that time.
pub(super) fn of(row: Box<Resource>, listed_at: DateTime<Utc>) -> Box<dyn Pane> {
    let mut fields = Vec::new();
    flatten("", &row.attributes, 0, &mut fields);
    fields.retain(|(name, _)| !["id", "name", "tags"].contains(&name.as_str()));
    let of_all = [
        ("site", row.key.site.to_string()),
        ("kind", row.key.kind.to_string()),
        ("id", row.key.id.clone()),
        ("name", row.name.clone()),
        ("project", row.project_id.clone()),
        ("tags", row.tags.join(", ")),
    ];
    fields.splice(0..0, of_all.map(|(name, value)| (name.to_owned(), value)));
    let pane = DetailsPane {
        title: resource_words(&row.key.kind, &row.name, &row.key.id),
        resource: row,
        listed_at,
    };
    listed(pane, fields)
}

fn flatten(path: &str, value: &Value, depth: usize, fields: &mut Vec<Field>) {
    let join = |part: &str| match path {
        "" => part.to_owned(),
        path => format!("{path}.{part}"),
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
    const SCOPE: Scope = Scope::Details;
    const NOUN: &'static str = "field";
    const REFRESH: Refresh = Refresh::Never;
    const NOTHING: &'static [&'static str] = &["There is no field to show."];

    fn heading(&self, _rows: &Rows<Field>, _look: &RenderContext) -> String {
        self.title.clone()
    }
    fn freshness(&self, _rows: &Rows<Field>, _now: DateTime<Utc>) -> Freshness {
        Freshness::AsOf(self.listed_at)
    }
    fn table(&self, _rows: &Rows<Field>, look: &RenderContext) -> Table<'_, Field> {
        columns! { row: Field, look;
            fixed("FIELD", (look.width / 3).clamp(8, 32)) => Cell::dim(&row.0),
            flex("VALUE", 1) => Cell::plain(&row.1),
        }
    }
    fn details(&self, (name, value): &Field, _look: &RenderContext) -> Vec<Cell> {
        vec![Cell::plain(format!("{name}: {value}"))]
    }
    fn copies(&self, _: &Rows<Field>, (_, value): &Field) -> Vec<Copied> {
        vec![
            Copied::new("the value", value),
            Copied::id(&self.resource.key.id),
        ]
    }
    fn act_on(&mut self, _: &mut Rows<Field>, action: Action, context: &mut Context) -> bool {
        let is_yaml = action == Action::Yaml;
        if is_yaml {
            let record = Record::Resource(self.resource.clone(), self.listed_at);
            context.push(Route::Yaml(record, self.title.clone()));
        }
        is_yaml
    }
}
