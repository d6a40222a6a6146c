//! The columns of a pane as data: a line of a table has a column, and what a row shows in it.

use std::borrow::Cow;

use super::{Cell, RenderContext};

/// A column: its heading, and how it gets its width.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) heading: Cow<'static, str>,
    pub(crate) width: Width,
    pub(crate) right: bool,
    /// Whether a text that is too long keeps its end.
    pub(crate) tail: bool,
    /// Shown only on screens at least this wide; less important columns give way.
    pub(crate) from_width: u16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(u16),
    /// Shares the width that the fixed columns leave, by weight.
    Flex(u16),
    /// At least so wide, and shares what is left with weight 1.
    Growing(u16),
}

pub(crate) fn fixed(heading: impl Into<Cow<'static, str>>, width: u16) -> Column {
    Column {
        heading: heading.into(),
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

/// The number of attempts, of so many.
pub(crate) fn attempts(look: &RenderContext) -> Column {
    match look.width {
        // Names need the room.
        0..100 => fixed("ATT.", 5),
        _ => fixed("ATTEMPTS", 8),
    }
}

impl Column {
    pub(crate) fn right(self) -> Self {
        Self {
            right: true,
            ..self
        }
    }
    pub(crate) fn from(self, from_width: u16) -> Self {
        Self { from_width, ..self }
    }
}

/// Tells what a row shows in a column.
type CellOf<'t, R> = Box<dyn Fn(&R, &RenderContext<'_>) -> Cell + 't>;

/// The columns of a pane with their cells, as [`columns!`] lists them.
pub(crate) struct Table<'t, R>(pub(crate) Vec<(Column, CellOf<'t, R>)>);

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
        let (columns, cells): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        let cells_of = |row| cells.iter().map(|cell| cell(row, look)).collect();
        Shown {
            rows: rows.map(cells_of).collect(),
            columns,
        }
    }
}

/// Pairs a column with its cell.
pub(crate) fn paired<'t, R>(
    column: Column,
    cell: impl Fn(&R, &RenderContext<'_>) -> Cell + 't,
) -> (Column, CellOf<'t, R>) {
    (column, Box::new(cell))
}

/// Lists columns, one a line: `fixed("ID", 8).from(60) => Cell::dim(short_id(&row.id)),`.
macro_rules! columns {
    ($row:ident: $type:ty, $look:ident; $($column:expr => $cell:expr,)*) => {{
        use $crate::frontends::console::panes::kit;
        kit::Table(vec![$(kit::paired($column, move |$row: &$type, $look: &kit::RenderContext<'_>| {
            let _ = $look;
            $cell
        })),*])
    }};
}
pub(crate) use columns;
