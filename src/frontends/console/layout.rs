//! The layout of a screen: its areas, depending on its size.

use ratatui::layout::Rect;

use super::panes::kit::Pane;
use super::render_context::{Cell, RenderContext};

/// On a screen with fewer columns or rows, the console only says that the screen is too small, or shows an open
/// question in a short form.
pub(super) const COLUMNS_MIN: u16 = 40;
pub(super) const ROWS_MIN: u16 = 10;
/// Minimum width of a screen on which the detail is beside the table, and not below it.
const SIDE_FROM: u16 = 160;
/// Maximum number of rows for one sentence of the pinned lines.
pub(super) const HEAD_ROWS_MAX: usize = 4;

/// The areas of a screen, and the lines pinned above its table.
pub(super) struct Layout {
    pub(super) head_lines: Vec<Cell>,
    pub(super) header: Rect,
    pub(super) title: Rect,
    pub(super) head: Rect,
    /// The table with its headings.
    pub(super) table: Rect,
    pub(super) detail: Rect,
    /// Whether the detail is beside the table.
    pub(super) is_beside: bool,
    pub(super) message: Rect,
    pub(super) footer: Rect,
}

pub(super) fn is_too_small((columns, rows): (u16, u16)) -> bool {
    columns < COLUMNS_MIN || rows < ROWS_MIN
}

/// The layout of a screen of this size that shows the pane; `None` if the screen is too small.
pub(super) fn of(pane: &dyn Pane, look: &RenderContext, size: (u16, u16)) -> Option<Layout> {
    if is_too_small(size) {
        return None;
    }
    let area = Rect::new(0, 0, size.0, size.1);
    let head_lines = head_lines(pane, look, area);
    // The detail is written again whenever the cursor moves. Over a slow line it is below the table, where it is short.
    let is_beside =
        area.width >= SIDE_FROM && pane.len() > 0 && !pane.is_full_width() && !look.sparing;
    // The detail has the same height for all rows of a pane, so that nothing jumps while the cursor moves. Over a slow
    // line it is short, because it is written again whenever the cursor moves.
    let detail_rows = match pane.len() {
        0 => 0,
        _ if look.sparing => 1,
        _ => pane.detail_rows(),
    };
    Some(areas(area, head_lines, detail_rows, is_beside))
}

fn head_lines(pane: &dyn Pane, look: &RenderContext, area: Rect) -> Vec<Cell> {
    let rows_max = usize::from(area.height / 3);
    let width = area.width.saturating_sub(2);
    let mut lines = look.wrap_all(&pane.head(look), width, HEAD_ROWS_MAX);
    if lines.len() > rows_max {
        let hidden = lines.len() - rows_max + 1;
        lines.truncate(rows_max.saturating_sub(1));
        lines.push(Cell::dim(format!("and {hidden} more lines")));
    }
    lines
}

fn areas(area: Rect, head_lines: Vec<Cell>, detail_rows: u16, is_beside: bool) -> Layout {
    let header = match area.height {
        16.. => 3,
        12.. => 2,
        _ => 1,
    };
    // The height includes the rule above the detail.
    let detail = match area.height {
        _ if detail_rows == 0 || is_beside => 0,
        40.. if detail_rows > 1 => detail_rows + 3,
        22.. => detail_rows + 1,
        16.. => detail_rows.min(2) + 1,
        _ => 0,
    };
    // On a small screen a message takes the place of the keys.
    let bottom = if area.height < 14 { 1 } else { 2 };
    let mut rest = area;
    // Ratatui's solver would take longer than all the rest of a frame.
    let mut take = |height: u16| {
        let height = height.min(rest.height);
        let taken = Rect { height, ..rest };
        rest.y += height;
        rest.height -= height;
        taken
    };
    let header = take(header);
    let title = take(1);
    let head = take(u16::try_from(head_lines.len()).unwrap_or(u16::MAX));
    let used = header.height + title.height + head.height + detail + bottom;
    let mut table = take(area.height.saturating_sub(used));
    let mut detail = take(detail);
    if is_beside {
        detail = table;
        table.width = area.width / 5 * 3;
        detail.x += table.width;
        detail.width -= table.width;
    }
    let message = take(1);
    Layout {
        head_lines,
        header,
        title,
        head,
        table,
        detail,
        is_beside,
        message,
        footer: if bottom == 2 { take(1) } else { message },
    }
}
