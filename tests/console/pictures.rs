//! Snapshots of panes: their text at two sizes, and their styles with and without colours. Most panes are also drawn on
//! a screen that is too small.

use gone::domain::model::DeletionState;
use gone::frontends::console::{ConsoleOptions, render};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::fake::{TestConsole, World, deletion, options, refusal, unreachable};

/// Returns the screen after these keys, at 80x24 and at 120x40, then its styles at 80x24 in colour and without. Asserts
/// that a screen of 39x9 says that it is too small.
fn pictures(world: impl Fn() -> World, keys: &str, options: &ConsoleOptions) -> String {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        all.push_str(
            &TestConsole::with(world(), size, options.clone())
                .after(keys)
                .text(),
        );
        all.push('\n');
    }
    for no_color in [false, true] {
        let options = ConsoleOptions {
            no_color,
            ..options.clone()
        };
        let console = TestConsole::with(world(), (80, 24), options).after(keys);
        all.push_str(if no_color { "mono\n" } else { "colours\n" });
        all.push_str(&styles(&console));
    }
    let mut console = TestConsole::with(world(), (80, 24), options.clone()).after(keys);
    console.handle(gone::frontends::console::Event::Resize(39, 9));
    console.assert_shows(["gone needs 40x10"]);
    all
}

/// Returns one character for each cell: `#` if the cell is reversed, otherwise the first letter of its colour, as a
/// capital if the cell is bold. A cell without a colour has `N` if it is bold, `-` if it is dim, otherwise a space.
pub fn styles(console: &TestConsole) -> String {
    let (columns, rows) = console.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    render(&console.state, &mut buffer);
    let letter = |cell: &Cell| {
        let colour = match cell.fg {
            Color::Reset => 'n',
            Color::Red => 'r',
            Color::Green => 'g',
            Color::Yellow => 'y',
            Color::Cyan => 'c',
            other => panic!("the palette of the console has no {other:?}"),
        };
        let is = |modifier| cell.modifier.contains(modifier);
        match colour {
            _ if is(Modifier::REVERSED) => '#',
            colour if is(Modifier::BOLD) => colour.to_ascii_uppercase(),
            'n' if is(Modifier::DIM) => '-',
            'n' => ' ',
            colour => colour,
        }
    };
    let mut text = String::new();
    for y in 0..rows {
        let row: String = (0..columns).map(|x| letter(&buffer[(x, y)])).collect();
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Compares the text with the snapshot of this name.
pub fn assert_screens(name: &str, text: &str) {
    insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text);
    });
}

/// The name of each snapshot, and the keys that lead to its screen.
#[rustfmt::skip]
const PANES: &[(&str, &str)] = &[
    ("deletions", ""),
    ("browse", ":network enter down space"),
    ("details", ":network enter enter"),
    ("yaml", ":network enter enter Y"),
    ("plan", ":net enter D"),
    ("plan_confirm", ":net enter D enter we"),
    ("chart", "enter t"),
    ("tree", "enter"),
    ("timeline", ":stuck enter down enter"),
    ("explain", ":network enter e down down"),
    ("blockers", ":stuck enter down b y"),
    ("stuck", ":stuck enter"),
    ("columns", ":stuck enter :columns enter down space"),
    ("ladder", ":stuck enter F down down"),
    ("gc", ":gc enter"),
    ("orphans", ":orphans enter"),
    ("sites", ":sites enter"),
    ("causes", ":stuck enter g space down space r"),
    ("gates", ":gates enter"),
    ("deployments", ":deployments enter down"),
    ("engine", ":engine enter down down"),
    ("engines", ":engines enter down"),
    ("report", "W"),
    ("help", "?"),
    ("command_line", ":s"),
    ("unknown_word", ":netwrok enter"),
];

#[test]
fn each_pane_is_drawn_as_its_snapshot() {
    for (name, keys) in PANES {
        assert_screens(name, &pictures(World::busy, keys, &options()));
    }
}

#[test]
fn panes_without_rows_are_drawn_as_their_snapshots() {
    for (name, keys) in [
        ("no_deletions", ""),
        ("no_deployments", ":deployments enter"),
    ] {
        assert_screens(name, &pictures(World::empty, keys, &options()));
    }
}

#[test]
fn plan_refused() {
    let world = || {
        let mut world = World::busy();
        world.plan.as_mut().unwrap().refused = vec![refusal()];
        world
    };
    assert_screens("plan_refused", &pictures(world, ":net enter D", &options()));
}

#[test]
fn plan_failed() {
    let failure = "prod/RegionTwo could not be listed: connection refused";
    let world = || World {
        plan: Err(unreachable(failure)),
        ..World::busy()
    };
    assert_screens("plan_failed", &pictures(world, ":net enter D", &options()));
}

#[test]
fn tour() {
    let options = ConsoleOptions {
        tour: true,
        ..options()
    };
    assert_screens("tour", &pictures(World::busy, ":tour enter down", &options));
}

#[test]
fn tree_of_ten_thousand_equal_ports() {
    let world = || {
        let mut world = World::busy();
        world.steps = super::fake::steps(10_000);
        world.deletions[0] = deletion(1, DeletionState::Running, 3_333, 10_002);
        world
    };
    assert_screens(
        "tree_folded",
        &pictures(world, "enter down down", &options()),
    );
}

#[test]
fn events() {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        let mut console = TestConsole::new(World::busy(), size).after(":events enter");
        console.deliver_events();
        all.push_str(&console.text());
    }
    assert_screens("events", &all);
}

/// The pending clearances of a step: in `:stuck`, in its blockers, in its timeline and in the tree of its deletion.
#[test]
fn pending_clearances() {
    let mut all = String::new();
    for keys in [
        ":stuck enter",
        ":stuck enter b",
        ":stuck enter enter",
        "enter",
        "enter down down down",
        "enter left",
    ] {
        all.push_str(
            &TestConsole::new(super::fake::pending_clearances(), (80, 24))
                .after(keys)
                .text(),
        );
        all.push('\n');
    }
    assert_screens("held_elsewhere", &all);
}

#[test]
fn smallest_and_too_small() {
    let mut all = String::new();
    for (size, keys) in [
        ((40, 10), ""),
        ((40, 10), ":net enter D"),
        ((40, 10), ":net enter D enter"),
        ((39, 10), ""),
        ((20, 3), ""),
    ] {
        all.push_str(&TestConsole::new(World::busy(), size).after(keys).text());
        all.push_str("----\n");
    }
    assert_screens("smallest_and_too_small", &all);
}

#[test]
fn ascii_only() {
    let mut all = String::new();
    for keys in [
        "",
        "enter",
        ":net enter D",
        ":net enter D enter",
        ":stuck enter",
    ] {
        let console = TestConsole::with(
            World::busy(),
            (80, 24),
            gone::frontends::console::ConsoleOptions {
                ascii: true,
                ..super::fake::options()
            },
        )
        .after(keys);
        let text = console.text();
        assert!(text.is_ascii(), "{text}");
        all.push_str(&text);
    }
    assert_screens("ascii", &all);
}
