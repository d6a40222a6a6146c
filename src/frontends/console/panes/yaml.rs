//! One record as YAML, as `-o yaml` prints it: a resource as it was listed, a step or a deletion as it is now.

use serde::Serialize;

use super::kit::*;
use crate::domain::text::escape;
use crate::present;

struct Line {
    number: usize,
    text: String,
}

impl Row for Line {
    fn key(&self) -> String {
        self.number.to_string()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.text.as_str()])
    }
}

struct YamlPane {
    /// The words for the resource, the step or the deletion.
    words: String,
    /// When the resource was listed; `None` for a record that follows the engine.
    listed_at: Option<DateTime<Utc>>,
}

pub(super) fn of(record: Record, words: String) -> Box<dyn Pane> {
    let (rows, listed_at) = match record {
        Record::Resource(resource, at) => (Rows::from(lines(&*resource)), Some(at)),
        Record::Work(of) => {
            let lines = |item: WorkItem<'_>| match item {
                WorkItem::Step(step) => lines(step),
                WorkItem::Deletion(deletion) => lines(deletion),
            };
            (Rows::from(feed_of(of, lines)), None)
        }
    };
    listed(YamlPane { words, listed_at }, rows)
}

fn lines<T: Serialize>(record: &T) -> Vec<Line> {
    let yaml = present::yaml(record, escape);
    let yaml = yaml.unwrap_or_else(|why| format!("# the record cannot be written as YAML: {why}"));
    let lines = yaml.trim_end().lines().map(str::to_owned).enumerate();
    lines.map(|(number, text)| Line { number, text }).collect()
}

impl ListPane for YamlPane {
    type Row = Line;
    const SCOPE: Scope = Scope::Yaml;
    const NOUN: &'static str = "line";
    const DETAIL_ROWS: u16 = 2;
    const LOADING: &'static str = "Reading the record…";
    const NOTHING: &'static [&'static str] = &["The record is empty."];
    const FAILED: &'static [&'static str] =
        &["The record could not be read; {refresh} asks again."];

    fn heading(&self, _rows: &Rows<Line>, _look: &RenderContext) -> String {
        format!("{} as YAML", self.words)
    }
    fn freshness(&self, rows: &Rows<Line>, now: DateTime<Utc>) -> Freshness {
        match self.listed_at {
            Some(at) => Freshness::AsOf(at),
            None => rows.feed.pace.freshness(true, now),
        }
    }
    fn table(&self, _rows: &Rows<Line>, _look: &RenderContext) -> Table<'_, Line> {
        columns! { line: Line, look;
            flex("YAML", 1) => Cell::plain(&line.text),
        }
    }
    fn details(&self, line: &Line, _look: &RenderContext) -> Vec<Cell> {
        // The row may have cut the line.
        vec![Cell::plain(line.text.trim_start())]
    }
    fn copies(&self, rows: &Rows<Line>, line: &Line) -> Vec<Copied> {
        let all = rows.all().map(|line| line.text.as_str());
        vec![
            Copied::new("the line", line.text.trim_start()),
            Copied::lines("the whole record", all),
        ]
    }
    fn act_on(&mut self, _: &mut Rows<Line>, action: Action, context: &mut Context) -> bool {
        let leaves = action == Action::Yaml;
        if leaves {
            context.requests.push(PaneRequest::Back);
        }
        leaves
    }
}
