//! Draws the table of a pane; only the rows on the screen are computed.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::super::panes::kit::{Cell, Column, Pane, Shown, Width, emptiness};
use super::super::render_context::Tone;
use super::Canvas;

/// Columns for the sign of the cursor and that of a mark.
const GUTTER: u16 = 3;
/// Width of a flexible column, and minimum width of a growing one, before the spare width is shared out.
const FLEX_MIN: u16 = 10;
/// Width below which no column is narrowed to fit the screen; if that does not suffice, the last columns are hidden.
const FIXED_MIN: u16 = 8;
/// A column whose widest text is wider than this neither gets width from other columns nor gives them any: it has
/// sentences, which may be cut.
const WHOLE_MAX: usize = 40;

pub(super) fn draw(pane: &dyn Pane, canvas: &mut Canvas, area: Rect) {
    let look = canvas.look;
    if pane.len() == 0 {
        draw_empty(pane, canvas, area);
        return;
    }
    let list = pane.list();
    let rows_max = usize::from(area.height.saturating_sub(1));
    let last = pane.len().min(list.top + rows_max);
    let Shown { columns, rows } = pane.shown(list.top..last, &look);
    let room = area.width.saturating_sub(GUTTER + 1);
    let mut widths = widths(&columns, room, gap(area.width));
    give_way(&mut widths, &columns, &rows);
    let headings = columns.iter().map(|it| Cell::dim(&*it.heading));
    let headings: Vec<Cell> = headings.collect();
    draw_row(canvas, (area.y, area.right()), &columns, &widths, &headings);
    for ((row, mut cells), y) in (list.top..).zip(rows).zip(area.y + 1..) {
        let is_cursor = row == list.cursor;
        // The whole row under the cursor has one tone, because several tones are hard to read in reverse video.
        let reversed = is_cursor && !look.sparing;
        for cell in cells.iter_mut().filter(|_| reversed) {
            (cell.tone, cell.tones) = (Tone::Plain, Vec::new());
        }
        draw_row(canvas, (y, area.right()), &columns, &widths, &cells);
        if pane.is_marked(row) {
            canvas.own(1, y, "*", Tone::Warn);
        }
        if is_cursor {
            canvas.own(0, y, ">", Tone::Strong);
            let width = if reversed { area.width } else { 1 };
            canvas.reverse(Rect::new(area.x, y, width, 1));
        }
    }
}

fn gap(width: u16) -> u16 {
    if width < 100 { 1 } else { 2 }
}

/// Draws one row; `right` is the column after the table.
fn draw_row(
    canvas: &mut Canvas,
    (y, right): (u16, u16),
    columns: &[Column],
    widths: &[u16],
    cells: &[Cell],
) {
    let look = canvas.look;
    let mut x = GUTTER;
    let columns = columns.iter().zip(widths);
    for (at, ((column, width), Cell { text, tone, tones })) in columns.zip(cells).enumerate() {
        if *width == 0 {
            continue;
        }
        if column.tail || column.right {
            let text = look.fit_end(text, usize::from(*width), column.tail);
            let wide = text.width();
            let spare = width.saturating_sub(u16::try_from(wide).unwrap_or(*width));
            let blank = if column.right { spare } else { 0 };
            canvas.set(x + blank, y, *width - blank, &text, look.style(*tone));
        } else {
            // A cell with only empty cells to its right may extend over them.
            let is_last = cells.iter().skip(at + 1).all(|it| it.text.is_empty());
            let rest = right.saturating_sub(x + 1);
            let room = if is_last { rest } else { *width };
            canvas.put(x, y, room, text, *tone);
            canvas.tint(x, y, room, tones);
        }
        x += width + gap(look.width);
    }
}

/// Returns the width of each column; 0 hides a column that does not fit.
fn widths(columns: &[Column], room: u16, gap: u16) -> Vec<u16> {
    let screen = room + GUTTER + 1;
    let mut widths: Vec<u16> = columns
        .iter()
        .map(|column| match column.width {
            _ if column.from_width > screen => 0,
            Width::Fixed(width) => width,
            Width::Growing(width) => width.max(FLEX_MIN),
            Width::Flex(_) => FLEX_MIN,
        })
        .collect();
    let needed = |widths: &[u16]| -> u16 {
        let shown = widths.iter().filter(|w| **w > 0);
        shown.map(|w| w.saturating_add(gap)).sum::<u16>()
    };
    while needed(&widths) > room {
        match widths.iter_mut().max_by_key(|w| **w) {
            Some(widest) if *widest > FIXED_MIN => *widest -= 1,
            // Even the smallest widths do not fit, so the last columns are hidden.
            _ => match widths.iter().rposition(|w| *w > 0) {
                Some(last) if widths.iter().filter(|w| **w > 0).count() > 1 => widths[last] = 0,
                _ => break,
            },
        }
    }
    let weight = |(column, width): (&Column, &u16)| match column.width {
        Width::Flex(weight) if *width > 0 => weight,
        Width::Growing(_) if *width > 0 => 1,
        Width::Flex(_) | Width::Growing(_) | Width::Fixed(_) => 0,
    };
    let weights: Vec<u16> = columns.iter().zip(&widths).map(weight).collect();
    let total: u16 = weights.iter().sum();
    let spare = room.saturating_sub(needed(&widths));
    for (width, weight) in widths.iter_mut().zip(weights) {
        let share = u32::from(spare) * u32::from(weight) / u32::from(total).max(1);
        *width += u16::try_from(share).unwrap_or(0);
    }
    widths
}

/// Moves width from flexible columns that do not need it to flexible columns that would cut a name.
fn give_way(widths: &mut [u16], columns: &[Column], rows: &[Vec<Cell>]) {
    let is_flexible = |at: usize| !matches!(columns[at].width, Width::Fixed(_)) && widths[at] > 0;
    let flexible: Vec<usize> = (0..columns.len()).filter(|at| is_flexible(*at)).collect();
    // How much wider each column is than its texts; negative if it is too narrow.
    let mut spares: Vec<(usize, i32)> = flexible
        .into_iter()
        .filter_map(|at| {
            let texts = rows.iter().map(|cells| cells[at].text.as_str());
            let needs = texts
                .chain([columns[at].heading.as_ref()])
                .map(UnicodeWidthStr::width);
            let needs = needs.max().filter(|needs| *needs <= WHOLE_MAX)?;
            Some((at, i32::from(widths[at]) - i32::try_from(needs).ok()?))
        })
        .collect();
    // Of the columns that are too narrow, the one that lacks the fewest cells comes first, so that more texts are shown
    // whole.
    spares.sort_by_key(|(_, spare)| -spare);
    let first_taker = spares.partition_point(|(_, spare)| *spare > 0);
    let (givers, takers) = spares.split_at_mut(first_taker);
    for (taker, lack) in takers {
        for (giver, spare) in givers.iter_mut() {
            let given = (-*lack).min(*spare);
            *spare -= given;
            *lack += given;
            let given = u16::try_from(given).unwrap_or(0);
            widths[*giver] -= given;
            widths[*taker] += given;
        }
    }
}

/// Draws the lines that are shown in place of rows.
fn draw_empty(pane: &dyn Pane, canvas: &mut Canvas, area: Rect) {
    let look = canvas.look;
    let lines = emptiness::lines(pane, &look);
    let lines = look.wrap_all(&lines, area.width.saturating_sub(4), 3);
    let above = u16::from(area.height > 4);
    let inner = Rect {
        x: area.x + 2,
        y: area.y + above,
        width: area.width - 2,
        height: area.height.saturating_sub(above),
    };
    canvas.lines(inner, &lines);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontends::console::panes::kit::{fixed, flex};

    #[test]
    fn columns_never_exceed_the_available_width() {
        let columns = [
            fixed("A", 9),
            flex("B", 3),
            flex("C", 1),
            fixed("D", 36),
            fixed("E", 11).from(90),
        ];
        for screen in 40..300 {
            let available = screen - GUTTER - 1;
            let widths = widths(&columns, available, gap(screen));
            let shown: Vec<u16> = widths.iter().copied().filter(|w| *w > 0).collect();
            let used: u16 = shown.iter().map(|w| w + gap(screen)).sum();
            assert!(used <= available, "{used} of {available}");
            assert_eq!(widths[4] == 0, screen < 90, "at {screen}");
            assert!(widths[0] >= FIXED_MIN);
        }
    }

    #[test]
    fn a_name_that_would_be_cut_gets_the_width_that_other_names_leave() {
        let columns = [flex("NAME", 3), flex("SITE", 2), flex("WHY", 2)];
        let long = "It is in use by two ports, which belong to servers of another project.";
        let row = |site: &str| vec![Cell::plain("web-1"), Cell::plain(site), Cell::plain(long)];
        let given = |site: &str| {
            let mut widths = vec![18, 12, 12];
            give_way(&mut widths, &columns, &[row(site)]);
            widths
        };
        // The column of a sentence neither takes nor gives width.
        assert_eq!(given("prod/RegionOne"), [16, 14, 12]);
        assert_eq!(given("prod"), [18, 12, 12]);
        assert_eq!(given("a-cloud-with-a-long-name/RegionOne"), [5, 25, 12]);
    }
}
