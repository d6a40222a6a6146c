//! Hostile names, random keys, and screens of any size.

use gone::control::DeploymentStatus;
use gone::domain::model::{KindName, StepState};
use gone::frontends::console::{ConsoleOptions, Event, render};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use termina::event::{KeyCode, KeyEvent, Modifiers};
use unicode_width::UnicodeWidthStr;

use super::fake::{TestConsole, World, blocker, error, options, resource, step};

const HOSTILE: [&str; 8] = [
    "\u{1b}]2;owned\u{7}",
    "\u{1b}[2J\u{1b}[31mred",
    "a\rb\nc\td\u{8}\u{8}",
    "abc\u{202e}gpj.exe",
    "zero\u{200b}width\u{feff}",
    "👨\u{200d}👩\u{200d}👧\u{200d}👦 joined ❤\u{fe0f}",
    "e\u{301}\u{301}\u{301}\u{301}\u{9b}31m",
    "=HYPERLINK(\"http://x\")",
];

fn hostile_world() -> World {
    let mut world = World::busy();
    let long = "漢".repeat(255);
    let names = HOSTILE.iter().copied().chain([long.as_str()]);
    world.listings[0].rows = (1u32..)
        .zip(names)
        .map(|(n, name)| resource("network", n, name))
        .collect();
    for (n, name) in (0i64..).zip(HOSTILE) {
        let mut stuck = step(90 + n, name, name, StepState::Stuck, &[]);
        stuck.blockers = vec![blocker()];
        stuck.blockers[0].name = name.to_owned();
        stuck.blockers[0].owner_name = name.to_owned();
        stuck.last_error = Some(error());
        stuck.last_error.as_mut().unwrap().message = name.repeat(40);
        world.steps.push(stuck);
        world.deletions[0].targets[0].name = name.to_owned();
        world.snapshot.sites[0].reason = name.to_owned();
    }
    let silent = world.deployments[1].clone();
    world.deployments.clear();
    for name in HOSTILE {
        let mut row = DeploymentStatus {
            name: Some(name.to_owned()),
            region: name.to_owned(),
            ..silent.clone()
        };
        let watch = row.watch.as_mut().unwrap();
        watch.reason = name.repeat(40);
        watch.kinds.push(KindName::new(name));
        world.deployments.push(row);
    }
    if let Ok(plan) = &mut world.plan {
        for (step, name) in plan.steps.iter_mut().zip(HOSTILE) {
            step.name = name.to_owned();
            step.why = name.into();
        }
        plan.warnings = HOSTILE.map(str::to_owned).to_vec();
    }
    world
}

const WALK: [&str; 10] = [
    "",
    "enter",
    ":network enter",
    "enter",
    ":network enter D",
    "enter",
    "esc :stuck enter",
    "b",
    "esc enter",
    ":deployments enter",
];

fn frame(console: &TestConsole) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, console.size.0, console.size.1));
    render(&console.state, &mut buffer);
    buffer
}

#[test]
fn hostile_names_put_no_control_or_invisible_character_on_the_screen() {
    for ascii in [false, true] {
        for size in [(80, 24), (120, 40), (40, 10)] {
            let options = ConsoleOptions { ascii, ..options() };
            let mut console = TestConsole::with(hostile_world(), size, options);
            for keys in WALK {
                console.press(keys);
                for down in 0..9 {
                    for cell in frame(&console).content() {
                        let symbol = cell.symbol();
                        let hostile = symbol.chars().any(|c| {
                            c.is_control()
                                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}')
                        });
                        assert!(!hostile, "{symbol:?} after {keys:?} and {down} down");
                        assert!(!ascii || symbol.is_ascii(), "{symbol:?} after {keys:?}");
                    }
                    console.press("down");
                }
            }
        }
    }
}

#[test]
fn columns_stay_aligned_beside_wide_and_hostile_names() {
    let console = TestConsole::new(hostile_world(), (120, 40)).after(":network enter");
    let text = console.text();
    let rows: Vec<&str> = text.lines().filter(|l| l.contains("ACTIVE")).collect();
    assert_eq!(rows.len(), 9);
    let columns: Vec<usize> = rows
        .iter()
        .map(|row| row[..row.find("ACTIVE").unwrap()].width())
        .collect();
    assert!(
        columns.iter().all(|c| *c == columns[0]),
        "{columns:?}\n{text}"
    );
    console.assert_shows(["\\u{1b}]2;owned"]);
}

#[test]
fn a_name_that_cannot_be_typed_is_confirmed_by_its_short_id_alone() {
    let console = TestConsole::new(hostile_world(), (80, 24)).after(":network enter D enter");
    console.assert_shows(["Type the short id 00000001"]);
}

#[test]
fn the_selection_is_reversed_without_colours() {
    use ratatui::style::{Color, Modifier};
    let mono = ConsoleOptions {
        no_color: true,
        ..options()
    };
    let mut console = TestConsole::with(World::busy(), (80, 24), mono);
    for keys in WALK {
        console.press(keys);
        let frame = frame(&console);
        let coloured = |c: &&ratatui::buffer::Cell| c.fg != Color::Reset || c.bg != Color::Reset;
        assert_eq!(frame.content().iter().filter(coloured).count(), 0, "{keys}");
    }
    console.press("esc esc esc :network enter");
    let reversed = frame(&console)
        .content()
        .iter()
        .filter(|c| c.modifier.contains(Modifier::REVERSED))
        .count();
    assert_eq!(reversed, 80, "one whole row is reversed");
}

/// The accent makes a production cloud recognisable, with and without colours.
#[test]
fn a_clouds_accent_is_shown_in_the_first_line_and_on_the_confirmation() {
    use gone::system::config::Accent;
    use ratatui::style::{Color, Modifier};
    for no_color in [false, true] {
        let options = ConsoleOptions {
            no_color,
            accent: [
                ("prod".to_owned(), Accent::Red),
                ("away".to_owned(), Accent::Blue),
            ]
            .into(),
            ..options()
        };
        let mut console = TestConsole::with(World::busy(), (80, 24), options);
        let block = |console: &TestConsole, line: usize| {
            let text = console.text();
            let row = text.lines().nth(line).unwrap();
            let at = row
                .find(" prod ")
                .unwrap_or_else(|| panic!("no \" prod \" in {row}"));
            assert!(!row.contains(" away "), "{row}");
            let start = u16::try_from(row[..at].chars().count()).unwrap();
            let frame = frame(console);
            for x in start..start + 6 {
                let cell = &frame[(x, u16::try_from(line).unwrap())];
                assert!(cell.modifier.contains(Modifier::REVERSED));
                let colour = if no_color { Color::Reset } else { Color::Red };
                assert_eq!(cell.fg, colour);
            }
        };
        block(&console, 0);
        console.press(":network enter D enter");
        let text = console.text();
        let top = text.lines().position(|row| row.contains("┌─ confirm"));
        block(&console, top.unwrap());
    }
}

#[test]
fn a_hundred_thousand_random_events_never_panic_or_delete() {
    std::thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || send_random_events(seed, 25_000));
        }
    });
}

/// Sends this many random events to a console, and draws a frame after some of them.
fn send_random_events(seed: u64, events: usize) {
    let keys: Vec<KeyEvent> = (' '..='~')
        .filter(|c| *c != 'q')
        .map(KeyCode::Char)
        .chain([
            KeyCode::Enter,
            KeyCode::Escape,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Tab,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Function(1),
        ])
        .map(|code| KeyEvent::new(code, Modifiers::NONE))
        .collect();
    let walks = [
        ":network enter",
        ":stuck enter",
        ":causes enter",
        ":gc enter",
        ":orphans enter",
        ":tombstones enter",
        ":drift enter",
        ":gates enter",
        ":deployments enter",
        ":engine enter",
        ":engines enter",
        ":events enter",
        ":sites enter",
        ":tour enter",
        ":deletions enter",
        ":floating_ip enter",
        "esc esc enter",
        "D enter",
        "b",
        "t",
        "F",
        "?",
    ];
    let mut random = fastrand::Rng::with_seed(seed);
    let options = ConsoleOptions {
        tour: true,
        mouse: true,
        ..options()
    };
    let mut console = TestConsole::with(hostile_world(), (80, 24), options);
    console.world.deletions.truncate(4);
    for _ in 0..events {
        match random.u8(0..100) {
            0..4 => {
                let size = (random.u16(0..300), random.u16(0..100));
                console.handle(Event::Resize(size.0, size.1));
            }
            4..8 => console.press(walks[random.usize(0..walks.len())]),
            8 => {
                console.world.snapshot.last_event += 1;
                console.world.listings[0].rows.rotate_left(1);
                console.world.steps.rotate_right(3);
                console.publish();
            }
            9 => console.handle(Event::Paste("web\u{1b}\n漢字\n".to_owned())),
            10 if console.event_request.is_some() => console.deliver_events(),
            13 => console.handle(Event::Click(random.u16(0..100))),
            14 => console.handle(Event::Wheel {
                down: random.bool(),
            }),
            11 => {
                console.now += chrono::TimeDelta::milliseconds(700);
                let now = console.now;
                console.handle(Event::Tick(now));
            }
            12 => {
                let key = KeyCode::Char(char::from(b'a' + random.u8(0..26)));
                if key != KeyCode::Char('c') {
                    console.handle(Event::Key(KeyEvent::new(key, Modifiers::CONTROL)));
                }
            }
            _ => console.handle(Event::Key(keys[random.usize(0..keys.len())])),
        }
        if random.u8(0..4) == 0 {
            frame(&console);
        }
    }
    // A random confirmation would need the whole name or short id, which these seeds never type.
    let deleted = console
        .changes()
        .iter()
        .filter(|c| matches!(c, gone::control::Command::DeletePlan { .. }))
        .count();
    assert_eq!(deleted, 0);
}
