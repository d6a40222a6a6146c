//! The table of a pane: only the rows on the screen are computed.

use ratatui::layout::Rect;

use super::super::look::{Cell, Tone};
use super::super::panes::{Column, Pane, Width};
use super::Canvas;
use crate::frontends::console::panes::emptiness;

/// Columns for the sign of the cursor and that of a mark.
const GUTTER: u16 = 3;
/// Width of a flexible column before spare room is shared out.
const FLEX_MIN: u16 = 10;
const FIXED_MIN: u16 = 8;

pub(super) fn draw(pane: &dyn Pane, canvas: &mut Canvas<'_>, area: Rect) {
    let look = canvas.look;
    if pane.len() == 0 {
        draw_empty(pane, canvas, area);
        return;
    }
    let columns = pane.columns(&look);
    let widths = widths(
        &columns,
        area.width.saturating_sub(GUTTER + 1),
        gap(area.width),
    );
    let headings: Vec<_> = columns
        .iter()
        .map(|c| (c.heading.as_ref(), Tone::Dim))
        .collect();
    draw_row(canvas, area.y, &columns, &widths, &headings);
    let list = pane.list();
    let rows = (list.top..pane.len()).zip(area.y + 1..area.bottom());
    for (row, y) in rows {
        let is_cursor = row == list.cursor;
        let cells = pane.cells(row, &look);
        // The whole row under the cursor has one tone: tones would be hard to read reversed.
        let reversed = is_cursor && !look.sparing;
        let tone = |cell: &Cell| if reversed { Tone::Plain } else { cell.tone };
        let cells: Vec<_> = cells.iter().map(|c| (c.text.as_str(), tone(c))).collect();
        draw_row(canvas, y, &columns, &widths, &cells);
        if pane.is_marked(row) {
            canvas.own(1, y, "*", look.style(Tone::Warn));
        }
        if is_cursor {
            canvas.own(0, y, ">", look.style(Tone::Strong));
            let width = if reversed { area.width } else { 1 };
            canvas.reverse(Rect::new(area.x, y, width, 1));
        }
    }
}

fn gap(width: u16) -> u16 {
    if width < 100 { 1 } else { 2 }
}

fn draw_row(
    canvas: &mut Canvas<'_>,
    y: u16,
    columns: &[Column],
    widths: &[u16],
    cells: &[(&str, Tone)],
) {
    let look = canvas.look;
    let right = canvas.buffer.area.right();
    let mut x = GUTTER;
    for (at, ((column, width), (text, tone))) in columns.iter().zip(widths).zip(cells).enumerate() {
        if *width == 0 {
            continue;
        }
        let style = look.style(*tone);
        if column.tail || column.right {
            let text = look.fit_end(text, usize::from(*width), column.tail);
            let wide = unicode_width::UnicodeWidthStr::width(text.as_str());
            let blank = if column.right {
                width.saturating_sub(u16::try_from(wide).unwrap_or(*width))
            } else {
                0
            };
            canvas.set(x + blank, y, *width - blank, &text, style);
        } else {
            // A cell with only empty cells to its right may run on over them.
            let is_last = cells.iter().skip(at + 1).all(|(text, _)| text.is_empty());
            let room = if is_last {
                right.saturating_sub(x + 1)
            } else {
                *width
            };
            canvas.put(x, y, room, text, style);
        }
        x += width + gap(look.width);
    }
}

/// Returns the width of each column; zero hides a column that has no room.
fn widths(columns: &[Column], room: u16, gap: u16) -> Vec<u16> {
    let screen = room + GUTTER + 1;
    let mut widths: Vec<u16> = columns
        .iter()
        .map(|column| match column.width {
            _ if column.from_width > screen => 0,
            Width::Fixed(width) => width,
            Width::Flex(_) => FLEX_MIN,
        })
        .collect();
    let needed = |widths: &[u16]| -> u16 {
        let shown = widths.iter().filter(|w| **w > 0);
        shown.map(|w| w.saturating_add(gap)).sum::<u16>()
    };
    while needed(&widths) > room {
        let widest = widths.iter_mut().max_by_key(|w| **w);
        match widest {
            Some(widest) if *widest > FIXED_MIN => *widest -= 1,
            // Even the smallest widths have no room: the last columns are hidden.
            _ => match widths.iter().rposition(|w| *w > 0) {
                Some(last) if widths.iter().filter(|w| **w > 0).count() > 1 => widths[last] = 0,
                _ => break,
            },
        }
    }
    let mut spare = room.saturating_sub(needed(&widths));
    let flexes = || columns.iter().enumerate();
    let total: u16 = flexes()
        .filter(|(i, _)| widths[*i] > 0)
        .map(|(_, c)| if let Width::Flex(w) = c.width { w } else { 0 })
        .sum();
    let share = spare;
    for (i, column) in columns.iter().enumerate() {
        if let Width::Flex(weight) = column.width
            && widths[i] > 0
            && total > 0
        {
            let more = u32::from(share) * u32::from(weight) / u32::from(total);
            let more = u16::try_from(more).unwrap_or(0).min(spare);
            widths[i] += more;
            spare -= more;
        }
    }
    widths
}

/// Draws a pane without rows: what would be here, and how it gets here.
fn draw_empty(pane: &dyn Pane, canvas: &mut Canvas<'_>, area: Rect) {
    let look = canvas.look;
    let mut y = area.y + u16::from(area.height > 4);
    for cell in emptiness::lines(pane, &look) {
        for line in look.wrap(&cell.text, usize::from(area.width.saturating_sub(4)), 3) {
            if y >= area.bottom() {
                return;
            }
            canvas.put(3, y, area.width - 3, &line, look.style(cell.tone));
            y += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_the_room_and_never_exceed_it() {
        let columns = [
            Column::fixed("A", 9),
            Column::flex("B", 3),
            Column::flex("C", 1),
            Column::fixed("D", 36),
            Column::fixed("E", 11).from(90),
        ];
        for screen in 40..300 {
            let room = screen - GUTTER - 1;
            let widths = widths(&columns, room, gap(screen));
            let shown: Vec<u16> = widths.iter().copied().filter(|w| *w > 0).collect();
            let used: u16 = shown.iter().map(|w| w + gap(screen)).sum();
            assert!(used <= room, "{used} of {room}");
            assert_eq!(widths[4] == 0, screen < 90, "at {screen}");
            assert!(widths[0] >= FIXED_MIN);
        }
    }
}
