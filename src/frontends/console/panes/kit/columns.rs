//! The columns of a pane as data: each line of [`columns!`] has a column, and the cell of a row in that column.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

use super::{Cell, RenderContext, SearchQuery, WIDEST};
use crate::domain::natural::Natural;
use crate::present::joined;

/// A column: its heading, and how it gets its width.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) heading: Cow<'static, str>,
    /// The name in filters and choices; `None` if it follows from the heading.
    pub(crate) name: Option<&'static str>,
    pub(crate) width: Width,
    pub(crate) right: bool,
    /// Whether a text that is too long keeps its end.
    pub(crate) tail: bool,
    /// The width of a screen from which the column is shown, unless a person has chosen columns. Less important columns
    /// need a wider screen.
    pub(crate) from_width: u16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(u16),
    /// Shares the width that the fixed columns leave, by weight.
    Flex(u16),
    /// At least this wide; shares the width that the fixed columns leave, with weight 1.
    Growing(u16),
}

pub(crate) fn fixed(heading: impl Into<Cow<'static, str>>, width: u16) -> Column {
    Column {
        heading: heading.into(),
        name: None,
        width: Width::Fixed(width),
        right: false,
        tail: false,
        from_width: 0,
    }
}

pub(crate) fn flex(heading: &'static str, weight: u16) -> Column {
    Column {
        width: Width::Flex(weight),
        ..fixed(heading, 0)
    }
}

/// The column of a step's attempts and their maximum.
pub(crate) fn attempts(look: &RenderContext) -> Column {
    match look.width {
        // The width is needed for names.
        0..100 => Column {
            name: Some("attempts"),
            ..fixed("ATT.", 5)
        },
        _ => fixed("ATTEMPTS", 8),
    }
}

impl Column {
    pub(crate) fn right(mut self) -> Self {
        self.right = true;
        self
    }
    /// Keeps the end of a text that is too long, because ids differ there.
    pub(crate) fn tail(mut self) -> Self {
        self.tail = true;
        self
    }
    pub(crate) fn from(mut self, from_width: u16) -> Self {
        self.from_width = from_width;
        self
    }
}

/// Returns the cell of a row in a column.
type CellOf<'t, R> = Box<dyn Fn(&R, &RenderContext<'_>) -> Cell + 't>;

/// Returns the text by which a row is sorted in a column.
type KeyOf<'t, R> = Box<dyn Fn(&R) -> String + 't>;

/// A column with its cells.
pub(crate) struct Paired<'t, R> {
    column: Column,
    cell: CellOf<'t, R>,
    /// The text by which the column is sorted, if that is not the text of the cell.
    key: Option<KeyOf<'t, R>>,
}

impl<'t, R> Paired<'t, R> {
    pub(crate) fn by(mut self, key: impl Fn(&R) -> String + 't) -> Self {
        self.key = Some(Box::new(key));
        self
    }

    fn rank(&self, row: &R, look: &RenderContext) -> Natural {
        let key = self.key.as_ref().map(|key| key(row));
        Natural::new(&key.unwrap_or_else(|| (self.cell)(row, look).text))
    }

    /// The name of the column in filters and choices.
    fn name(&self) -> String {
        let name = self.column.name.map(str::to_owned);
        name.unwrap_or_else(|| column_name(&self.column.heading))
    }
}

/// The heading of a column as filters and choices name it: `blocked_by` for `BLOCKED BY`. Lists of names are separated
/// by spaces or commas, so a name contains neither. A text in parentheses at the end is left out.
pub(crate) fn column_name(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let name = heading.split(" (").next().unwrap_or_default();
    joined(name.split([' ', ',']).filter(|it| !it.is_empty()), "_")
}

/// The column by which a list is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) column: usize,
    pub(crate) backwards: bool,
}

/// The columns of a pane that a person can choose, by their names.
pub(crate) struct Choosable {
    /// The name under which the choice is kept: the word of the pane, or [`TREE`].
    pub(crate) kept_as: String,
    pub(crate) names: Vec<String>,
}

/// The name under which the columns of all trees are kept: a tree has no word after `:`.
pub(crate) const TREE: &str = "tree";

/// Names the pane whose columns are kept under this name: `:port`, or `the tree`.
pub(crate) fn columns_owner(kept_as: &str) -> String {
    match kept_as {
        TREE => "the tree".to_owned(),
        word => format!(":{word}"),
    }
}

/// A column by its name, as filters write it, and whether the list shows it.
pub(crate) struct ColumnOffer {
    pub(crate) name: String,
    pub(crate) is_shown: bool,
}

/// The columns of a pane with their cells, as [`columns!`] lists them.
pub(crate) struct Table<'t, R>(pub(crate) Vec<Paired<'t, R>>);

/// The columns of a pane, and the cells of some of its rows: one for each column, including hidden columns.
pub(crate) struct Shown {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl<R> Table<'_, R> {
    pub(crate) fn shown<'r>(self, rows: impl Iterator<Item = &'r R>, look: &RenderContext) -> Shown
    where
        R: 'r,
    {
        let paired = self.0.into_iter().map(|it| (it.column, it.cell));
        let (columns, cells): (Vec<_>, Vec<_>) = paired.unzip();
        let cells_of = |row| cells.iter().map(|cell| cell(row, look)).collect();
        Shown {
            rows: rows.map(cells_of).collect(),
            columns,
        }
    }

    /// Marks the column by which the rows are sorted.
    fn marking(mut self, order: Option<Order>, look: &RenderContext) -> Self {
        if let Some(Order { column, backwards }) = order
            && let Some(Paired { column, .. }) = self.0.get_mut(column)
        {
            let sign = match backwards {
                true => look.pick("▼", "v"),
                false => look.pick("▲", "^"),
            };
            column.heading.to_mut().push_str(sign);
            let wide = u16::try_from(column.heading.chars().count()).unwrap_or(0);
            column.width = match column.width {
                Width::Fixed(width) => Width::Fixed(width.max(wide)),
                Width::Growing(width) => Width::Growing(width.max(wide)),
                Width::Flex(weight) => Width::Flex(weight),
            };
        }
        self
    }

    /// Leaves only the chosen columns, in the order of `chosen`, however narrow the screen is; and marks the one by
    /// which the rows are sorted. Names that no column has are ignored; if no name is left, all columns stay.
    pub(crate) fn arranged(
        self,
        chosen: &[String],
        order: Option<Order>,
        look: &RenderContext,
    ) -> Self {
        let names = self.names();
        let marked = self.marking(order, look).0;
        if !names.iter().any(|name| chosen.contains(name)) {
            return Self(marked);
        }
        let columns = names.into_iter().zip(marked.into_iter().map(Some));
        let mut columns: Vec<_> = columns.collect();
        let kept = chosen.iter().filter_map(|name| {
            let mut found = columns.iter_mut().filter(|(it, _)| it == name);
            let paired = found.find_map(|(_, it)| it.take())?;
            Some(Paired {
                column: paired.column.from(0),
                ..paired
            })
        });
        Self(kept.collect())
    }

    /// Returns the index of the next column to sort by, among those that may be shown; `None` after the last one.
    pub(super) fn next_column(&self, after: Option<Order>, chosen: &[String]) -> Option<usize> {
        let first = after.map_or(0, |order| order.column + 1);
        let mut columns = self.0.iter().enumerate().skip(first);
        let has_any = self.0.iter().any(|it| chosen.contains(&it.name()));
        let next = columns.find(|(_, it)| match has_any {
            true => chosen.contains(&it.name()),
            false => it.column.from_width < WIDEST,
        });
        next.map(|(at, _)| at)
    }

    /// The key by which a row is sorted in a column.
    pub(super) fn rank(&self, column: usize, row: &R, look: &RenderContext) -> Option<Natural> {
        Some(self.0.get(column)?.rank(row, look))
    }

    pub(super) fn heading(&self, column: usize) -> Option<String> {
        Some(self.0.get(column)?.column.heading.to_string())
    }

    /// The names of the columns, as filters write them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(Paired::name).collect()
    }

    /// Whether a row fits the words of a filter that are about columns.
    pub(super) fn fits(&self, row: &R, filter: &SearchQuery, look: &RenderContext) -> bool {
        filter.fits_columns(|name| {
            let mut columns = self.0.iter();
            let column = columns.find(|it| it.name() == name);
            column.map_or_else(String::new, |it| (it.cell)(row, look).text)
        })
    }
}

/// The key by which a column of times, or of ages, is sorted; rows without a time come first.
pub(crate) fn time_key(at: impl Into<Option<DateTime<Utc>>>) -> String {
    let at = at.into().map(|at| at.to_rfc3339());
    at.unwrap_or_default()
}

/// Pairs a column with its cell.
pub(crate) fn paired<'t, R>(
    column: Column,
    cell: impl Fn(&R, &RenderContext<'_>) -> Cell + 't,
) -> Paired<'t, R> {
    Paired {
        column,
        cell: Box::new(cell),
        key: None,
    }
}

/// Lists columns, one a line: `fixed("ID", 8).from(60) => Cell::dim(short_id(&row.id)),`. The column is
/// sorted by the text after a semicolon, or else by the text of the cell.
macro_rules! columns {
    ($row:ident: $type:ty, $look:ident; $($column:expr => $cell:expr $(; $key:expr)?,)*) => {{
        use $crate::frontends::console::panes::kit;
        kit::Table(vec![$(kit::paired($column, move |$row: &$type, $look: &kit::RenderContext<'_>| {
            let _ = $look;
            $cell
        })$(.by(move |$row: &$type| $key))?),*])
    }};
}
pub(crate) use columns;
