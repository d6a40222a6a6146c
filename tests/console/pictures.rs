//! Each pane as it looks, without colours, on two sizes.

use gone::control::ControlError;
use gone::domain::model::DeletionState;

use super::fake::{Desk, World, deletion, refusal};

/// Small and wide, in one picture.
fn pictures(world: impl Fn() -> World, keys: &str) -> String {
    let mut all = String::new();
    for size in [(80, 24), (120, 40)] {
        let mut desk = Desk::new(world(), size);
        desk.press(keys);
        all.push_str(&desk.text());
        all.push('\n');
    }
    all
}

fn shot(name: &str, text: &str) {
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
            gone::faces::console::ConsoleOptions {
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
