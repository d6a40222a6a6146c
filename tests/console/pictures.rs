//! Each pane as it looks: on two sizes, its colours, what is left of them without, and on a screen that
//! is too small.

use gone::control::ControlError;
use gone::domain::model::DeletionState;
use gone::frontends::console::{ConsoleOptions, render};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::fake::{Desk, World, deletion, options, refusal};

/// Small and wide, then the styles of the small one, in one picture.
pub fn pictures(world: impl Fn() -> World, keys: &str) -> String {
    pictures_with(world, keys, &options())
}

fn pictures_with(world: impl Fn() -> World, keys: &str, options: &ConsoleOptions) -> String {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        let mut desk = Desk::with(world(), size, options.clone());
        desk.press(keys);
        all.push_str(&desk.text());
        all.push('\n');
    }
    for no_color in [false, true] {
        let look = ConsoleOptions {
            no_color,
            ..options.clone()
        };
        let mut desk = Desk::with(world(), (80, 24), look);
        desk.press(keys);
        all.push_str(if no_color { "mono\n" } else { "colours\n" });
        all.push_str(&styles(&desk));
    }
    let mut desk = Desk::with(world(), (80, 24), options.clone());
    desk.press(keys);
    desk.take(gone::frontends::console::Event::Resize(39, 9));
    assert!(desk.text().contains("gone needs 40x10"), "{}", desk.text());
    all
}

/// A letter for each cell: the colour's first (`n` for none), large if it is bold, `#` where it is
/// reversed; dim ones are `-`, plain ones blank.
pub fn styles(desk: &Desk) -> String {
    let (columns, rows) = desk.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    render(&desk.state, &mut buffer);
    let letter = |cell: &Cell| {
        let colour = match cell.fg {
            Color::Reset => 'n',
            Color::Red => 'r',
            Color::Green => 'g',
            Color::Yellow => 'y',
            Color::Cyan => 'c',
            other => panic!("a colour that nobody chose: {other:?}"),
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

pub fn shot(name: &str, text: &str) {
    insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn no_deletions() {
    shot("no_deletions", &pictures(World::empty, ""));
}

#[test]
fn deletions() {
    shot("deletions", &pictures(World::busy, ""));
}

#[test]
fn browse() {
    shot(
        "browse",
        &pictures(World::busy, ":network enter down space"),
    );
}

#[test]
fn details() {
    shot("details", &pictures(World::busy, ":network enter enter"));
}

#[test]
fn plan() {
    shot("plan", &pictures(World::busy, ":net enter D"));
}

#[test]
fn plan_confirm() {
    shot(
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
    shot("plan_refused", &pictures(world, ":net enter D"));
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
    shot("plan_failed", &pictures(world, ":net enter D"));
}

#[test]
fn chart() {
    shot("chart", &pictures(World::busy, "enter t"));
}

#[test]
fn tour() {
    let options = ConsoleOptions {
        tour: true,
        ..options()
    };
    let pictures = pictures_with(World::busy, ":tour enter down", &options);
    shot("tour", &pictures);
}

#[test]
fn tree() {
    shot("tree", &pictures(World::busy, "enter"));
}

#[test]
fn tree_of_ten_thousand_equal_ports() {
    let world = || {
        let mut world = World::busy();
        world.steps = super::fake::steps(10_000);
        world.deletions[0] = deletion(1, DeletionState::Running, 3_333, 10_002);
        world
    };
    shot("tree_folded", &pictures(world, "enter down down"));
}

#[test]
fn timeline() {
    shot(
        "timeline",
        &pictures(World::busy, ":stuck enter down enter"),
    );
}

#[test]
fn explain() {
    shot(
        "explain",
        &pictures(World::busy, ":network enter e down down"),
    );
}

#[test]
fn blockers() {
    shot("blockers", &pictures(World::busy, ":stuck enter down b y"));
}

#[test]
fn stuck() {
    shot("stuck", &pictures(World::busy, ":stuck enter"));
}

#[test]
fn ladder() {
    shot("ladder", &pictures(World::busy, ":stuck enter F down down"));
}

#[test]
fn gc() {
    shot("gc", &pictures(World::busy, ":gc enter"));
}

#[test]
fn orphans() {
    shot("orphans", &pictures(World::busy, ":orphans enter"));
}

#[test]
fn events() {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        let mut desk = Desk::new(World::busy(), size);
        desk.press(":events enter");
        desk.follow();
        all.push_str(&desk.text());
    }
    shot("events", &all);
}

#[test]
fn sites() {
    shot("sites", &pictures(World::busy, ":sites enter"));
}

#[test]
fn causes() {
    shot(
        "causes",
        &pictures(World::busy, ":stuck enter g space down space r"),
    );
}

#[test]
fn gates() {
    shot("gates", &pictures(World::busy, ":gates enter"));
}

#[test]
fn deployments() {
    shot(
        "deployments",
        &pictures(World::busy, ":deployments enter down"),
    );
}

#[test]
fn engine() {
    shot("engine", &pictures(World::busy, ":engine enter down down"));
    shot("engines", &pictures(World::busy, ":engines enter down"));
}

#[test]
fn no_deployments() {
    shot(
        "no_deployments",
        &pictures(World::empty, ":deployments enter"),
    );
}

/// What a step is told that other deployments hold, wherever it is looked at.
#[test]
fn held_elsewhere() {
    let mut all = String::new();
    for keys in [
        ":stuck enter",
        ":stuck enter b",
        ":stuck enter enter",
        "enter",
        "enter down down down",
        "enter left",
    ] {
        let mut desk = Desk::new(super::fake::held_elsewhere(), (80, 24));
        desk.press(keys);
        all.push_str(&desk.text());
        all.push('\n');
    }
    shot("held_elsewhere", &all);
}

#[test]
fn help() {
    shot("help", &pictures(World::busy, "?"));
}

#[test]
fn command_line() {
    shot("command_line", &pictures(World::busy, ":s"));
}

#[test]
fn unknown_word() {
    shot("unknown_word", &pictures(World::busy, ":netwrok enter"));
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
        let mut desk = Desk::new(World::busy(), size);
        desk.press(keys);
        all.push_str(&desk.text());
        all.push_str("----\n");
    }
    shot("smallest_and_too_small", &all);
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
        let mut desk = Desk::with(
            World::busy(),
            (80, 24),
            gone::frontends::console::ConsoleOptions {
                ascii: true,
                ..super::fake::options()
            },
        );
        desk.press(keys);
        let text = desk.text();
        assert!(text.is_ascii(), "{text}");
        all.push_str(&text);
    }
    shot("ascii", &all);
}
