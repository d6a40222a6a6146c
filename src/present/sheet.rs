//! Rows as text, below headings: the form that tables, CSV and web pages have in common.

/// A column of a list: its heading, its weight, and the text of a row's cell, which may be empty. On a screen that
/// is too narrow, the columns with the lowest weight are left out first.
pub type Column<R> = (&'static str, u8, fn(&R) -> String);

/// Declares the columns of lists: the heading, the weight and the cell of each.
macro_rules! columns {
    ($($(#[$doc:meta])* $vis:vis $name:ident: $row:ty, |$it:ident|
     $($heading:literal $weight:literal => $cell:expr;)*)*) => {$(
        $(#[$doc])*
        $vis const $name: &[$crate::present::Column<$row>] =
            &[$(($heading, $weight, |$it| ($cell).to_string())),*];
    )*};
}
pub(crate) use columns;

/// A table of texts: headings with their weights, and rows of cells, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    headings: Vec<(String, u8)>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = (H, u8)>) -> Self {
        let headings = headings
            .into_iter()
            .map(|(heading, weight)| (heading.into(), weight));
        Self {
            headings: headings.collect(),
            rows: Vec::new(),
        }
    }

    pub fn of<'a, R: 'a>(columns: &[Column<R>], rows: impl IntoIterator<Item = &'a R>) -> Self {
        let mut sheet = Self::new(columns.iter().map(|column| (column.0, column.1)));
        for row in rows {
            sheet.push(columns.iter().map(|(_, _, cell)| cell(row)));
        }
        sheet
    }

    /// Adds a row, with its cells in the order of the headings.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn headings(&self) -> impl Iterator<Item = &str> {
        self.headings.iter().map(|(heading, _)| heading.as_str())
    }

    /// Returns the weight of a column by its index; 0 if there is no such column.
    pub fn weight(&self, column: usize) -> u8 {
        self.headings.get(column).map_or(0, |(_, weight)| *weight)
    }

    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}
