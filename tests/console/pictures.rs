//! Snapshots of each pane: at two sizes, its styles with and without colours. Each pane is also drawn on a screen that
//! is too small.

use gone::control::ControlError;
use gone::domain::model::DeletionState;
use gone::frontends::console::{ConsoleOptions, render};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::fake::{TestConsole, World, deletion, options, refusal};

/// Returns the screen after these keys, at 80x24 and at 120x40, then its styles at 80x24 in colour and without.
pub fn pictures(world: impl Fn() -> World, keys: &str) -> String {
    pictures_with(world, keys, &options())
}

fn pictures_with(world: impl Fn() -> World, keys: &str, options: &ConsoleOptions) -> String {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        let mut console = TestConsole::with(world(), size, options.clone());
        console.press(keys);
        all.push_str(&console.text());
        all.push('\n');
    }
    for no_color in [false, true] {
        let options = ConsoleOptions {
            no_color,
            ..options.clone()
        };
        let mut console = TestConsole::with(world(), (80, 24), options);
        console.press(keys);
        all.push_str(if no_color { "mono\n" } else { "colours\n" });
        all.push_str(&styles(&console));
    }
    let mut console = TestConsole::with(world(), (80, 24), options.clone());
    console.press(keys);
    console.handle(gone::frontends::console::Event::Resize(39, 9));
    assert!(
        console.text().contains("gone needs 40x10"),
        "{}",
        console.text()
    );
    all
}

/// Returns one character for each cell: `#` if it is reversed, otherwise the first letter of its colour (`n` for none)
/// as a capital if it is bold, `-` if it is dim without a colour, a space if it is plain, or the letter of its colour.
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

#[test]
fn no_deletions() {
    assert_screens("no_deletions", &pictures(World::empty, ""));
}

#[test]
fn deletions() {
    assert_screens("deletions", &pictures(World::busy, ""));
}

#[test]
fn browse() {
    assert_screens(
        "browse",
        &pictures(World::busy, ":network enter down space"),
    );
}

#[test]
fn details() {
    assert_screens("details", &pictures(World::busy, ":network enter enter"));
}

#[test]
fn plan() {
    assert_screens("plan", &pictures(World::busy, ":net enter D"));
}

#[test]
fn plan_confirm() {
    assert_screens(
        "plan_confirm",
        &pictures(World::busy, ":net enter D enter we"),
    );
}

#[test]
fn plan_refused() {
    let world = || {
        let mut world = World::busy();
        if let Ok(plan) = &mut world.plan {
            plan.refused = vec![refusal()];
        }
        world
    };
    assert_screens("plan_refused", &pictures(world, ":net enter D"));
}

#[test]
fn plan_failed() {
    let world = || {
        let mut world = World::busy();
        world.plan = Err(ControlError::Unreachable {
            message: "prod/RegionTwo could not be listed: connection refused".to_owned(),
        });
        world
    };
    assert_screens("plan_failed", &pictures(world, ":net enter D"));
}

#[test]
fn chart() {
    assert_screens("chart", &pictures(World::busy, "enter t"));
}

#[test]
fn tour() {
    let options = ConsoleOptions {
        tour: true,
        ..options()
    };
    let pictures = pictures_with(World::busy, ":tour enter down", &options);
    assert_screens("tour", &pictures);
}

#[test]
fn tree() {
    assert_screens("tree", &pictures(World::busy, "enter"));
}

#[test]
fn tree_of_ten_thousand_equal_ports() {
    let world = || {
        let mut world = World::busy();
        world.steps = super::fake::steps(10_000);
        world.deletions[0] = deletion(1, DeletionState::Running, 3_333, 10_002);
        world
    };
    assert_screens("tree_folded", &pictures(world, "enter down down"));
}

#[test]
fn timeline() {
    assert_screens(
        "timeline",
        &pictures(World::busy, ":stuck enter down enter"),
    );
}

#[test]
fn explain() {
    assert_screens(
        "explain",
        &pictures(World::busy, ":network enter e down down"),
    );
}

#[test]
fn blockers() {
    assert_screens("blockers", &pictures(World::busy, ":stuck enter down b y"));
}

#[test]
fn stuck() {
    assert_screens("stuck", &pictures(World::busy, ":stuck enter"));
}

#[test]
fn ladder() {
    assert_screens("ladder", &pictures(World::busy, ":stuck enter F down down"));
}

#[test]
fn gc() {
    assert_screens("gc", &pictures(World::busy, ":gc enter"));
}

#[test]
fn orphans() {
    assert_screens("orphans", &pictures(World::busy, ":orphans enter"));
}

#[test]
fn events() {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        let mut console = TestConsole::new(World::busy(), size);
        console.press(":events enter");
        console.deliver_events();
        all.push_str(&console.text());
    }
    assert_screens("events", &all);
}

#[test]
fn sites() {
    assert_screens("sites", &pictures(World::busy, ":sites enter"));
}

#[test]
fn causes() {
    assert_screens(
        "causes",
        &pictures(World::busy, ":stuck enter g space down space r"),
    );
}

#[test]
fn gates() {
    assert_screens("gates", &pictures(World::busy, ":gates enter"));
}

#[test]
fn deployments() {
    assert_screens(
        "deployments",
        &pictures(World::busy, ":deployments enter down"),
    );
}

#[test]
fn engine() {
    assert_screens("engine", &pictures(World::busy, ":engine enter down down"));
    assert_screens("engines", &pictures(World::busy, ":engines enter down"));
}

#[test]
fn no_deployments() {
    assert_screens(
        "no_deployments",
        &pictures(World::empty, ":deployments enter"),
    );
}

/// The pending clearances of a step, in each pane that shows the step.
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
        let mut console = TestConsole::new(super::fake::pending_clearances(), (80, 24));
        console.press(keys);
        all.push_str(&console.text());
        all.push('\n');
    }
    assert_screens("held_elsewhere", &all);
}

#[test]
fn help() {
    assert_screens("help", &pictures(World::busy, "?"));
}

#[test]
fn command_line() {
    assert_screens("command_line", &pictures(World::busy, ":s"));
}

#[test]
fn unknown_word() {
    assert_screens("unknown_word", &pictures(World::busy, ":netwrok enter"));
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
        let mut console = TestConsole::new(World::busy(), size);
        console.press(keys);
        all.push_str(&console.text());
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
        let mut console = TestConsole::with(
            World::busy(),
            (80, 24),
            gone::frontends::console::ConsoleOptions {
                ascii: true,
                ..super::fake::options()
            },
        );
        console.press(keys);
        let text = console.text();
        assert!(text.is_ascii(), "{text}");
        all.push_str(&text);
    }
    assert_screens("ascii", &all);
}
