//! `:columns`, the columns of the list or tree from which this pane was opened. Enter makes the list or tree show those
//! that are marked.

use super::kit::*;

struct ColumnsPane {
    /// The pane that has these columns: `:port`, or `the tree`.
    owner: String,
}

pub(super) fn of(owner: String, offers: Vec<ColumnOffer>) -> Box<dyn Pane> {
    let mut rows = Rows::from(offers);
    let shown = rows.feed.rows.iter().filter(|it| it.is_shown);
    shown.for_each(|it| rows.list.marks.set(it.name.clone(), true));
    listed(ColumnsPane { owner }, rows)
}

impl Row for ColumnOffer {
    fn key(&self) -> String {
        self.name.clone()
    }
    fn fits(&self, filter: &SearchQuery) -> bool {
        filter.fits_texts(&[self.name.as_str()])
    }
}

impl ListPane for ColumnsPane {
    type Row = ColumnOffer;
    const SCOPE: Scope = Scope::Columns;
    const NOUN: &'static str = "column";
    const REFRESH: Refresh = Refresh::Never;
    const DETAIL_ROWS: u16 = 2;
    const SCOPED: bool = false;
    const NOTHING: &'static [&'static str] = &["There is no column to choose."];

    fn heading(&self, _rows: &Rows<ColumnOffer>, _look: &RenderContext) -> String {
        format!("columns of {}", self.owner)
    }
    fn table(&self, _rows: &Rows<ColumnOffer>, _look: &RenderContext) -> Table<'_, ColumnOffer> {
        columns! { row: ColumnOffer, look;
            flex("COLUMN", 1) => Cell::plain(&row.name),
            fixed("SHOWN BEFORE", 12) => match row.is_shown {
                true => look.good("yes"),
                false => Cell::dim("no"),
            },
        }
    }
    fn details(&self, _row: &ColumnOffer, look: &RenderContext) -> Vec<Cell> {
        look.texts(&[
            "{mark} marks a column, {open} shows the marked ones from now on.",
            "Type :columns default for as many as fit, or :columns name,status for these in this order.",
        ])
    }
    fn copies(&self, _: &Rows<ColumnOffer>, row: &ColumnOffer) -> Vec<Copied> {
        vec![Copied::new("the name", &row.name)]
    }
    fn act_on(
        &mut self,
        rows: &mut Rows<ColumnOffer>,
        action: Action,
        context: &mut Context,
    ) -> bool {
        if action != Action::Open {
            return false;
        }
        let marks = &rows.list.marks;
        let marked = rows.all().filter(|row| marks.contains(&row.name));
        let names: Vec<String> = marked.map(|row| row.name.clone()).collect();
        match names.is_empty() {
            true => context.say(
                Tone::Warn,
                "mark at least one column: a list without any is blank",
            ),
            false => {
                // The list is on top again when the line is entered.
                let line = format!("columns {}", names.join(","));
                let requests = [PaneRequest::Back, PaneRequest::Enter(line)];
                context.requests.extend(requests);
            }
        }
        true
    }
}
