//! Measures what the console costs with 100 and with 1,000,000 steps in one deletion, on a screen of 200x60: a frame,
//! the time from a key to its frame, a filter, and memory. The steps are in a ledger on disk, as an engine writes it;
//! the ledger answers the console's queries at once. Also measures frames of `:home`, the query for the chart of the
//! deletion, and 10,000 resources of a cloud that are listed, sorted and filtered.
//!
//! Goals: p99 of a frame is at most 1 ms, and p50 at most 1.2 times that with 100 steps, also in `:home`; p99 of the
//! time from a key to its frame is at most 5 ms; the first page of a filter takes less than 100 ms, its exact count
//! less than 1 s; 10,000 resources are listed, sorted or filtered in less than 50 ms each; the console takes less
//! than 150 MB, including the ledger's readers. With `--smoke`, the bench runs briefly and checks no goal.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub
)]

#[path = "../console/fake.rs"]
mod fake;
#[path = "support/proc_stats.rs"]
mod proc_stats;
#[path = "../ledger/support.rs"]
mod support;
#[allow(dead_code)]
#[path = "../testkit/mod.rs"]
mod testkit;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gone::control::{ControlError, Page, Query, query};
use gone::domain::filter::SearchQuery;
use gone::domain::model::{Action, Paged, Plan};
use gone::frontends::console::render;
use gone::ledger::sqlite::{Options, SqliteLedger};
use gone::ledger::{Cursor, DeletionFilter, StepFilter, Views as _};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use fake::{TestConsole, World};

const COLUMNS: u16 = 200;
const ROWS: u16 = 60;
const FRAME_P99_MAX: Duration = Duration::from_millis(1);
const FRAME_RATIO_MAX: f64 = 1.2;
const KEY_P99_MAX: Duration = Duration::from_millis(5);
const FIRST_PAGE_MAX: Duration = Duration::from_millis(100);
const COUNT_MAX: Duration = Duration::from_secs(1);
const MEMORY_MAX_MB: u64 = 150;
const RESOURCES: u32 = 10_000;
const RESOURCES_MAX: Duration = Duration::from_millis(50);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, path, steps] = arguments.as_slice()
        && first == "--build"
    {
        return build(Path::new(path), steps.parse().unwrap());
    }
    let smoke = arguments.iter().any(|argument| argument == "--smoke");
    let (frames, many) = if smoke {
        (50, 3_000)
    } else {
        (5_000, 1_000_000)
    };
    let folder = tempfile::tempdir().unwrap();
    let [few, many] = [100, many].map(|steps: usize| {
        let path = folder.path().join(format!("{steps}.db"));
        let mut build = Command::new(&arguments[0]);
        // A process of its own builds the ledger, because this process measures only the memory of the console.
        let built = build.arg("--build").arg(&path).arg(steps.to_string());
        assert!(built.status().unwrap().success());
        (path, steps)
    });
    let ledgers = [&few, &many];
    let [small, large] = &tree(ledgers, frames);
    for ((_, steps), times) in [(&few, small), (&many, large)] {
        println!(
            "{steps:>7} steps: a frame p50 {:?}, p99 {:?}; from a key to its frame p50 {:?}, p99 {:?}, at most {:?}",
            times.frames.p50, times.frames.p99, times.keys.p50, times.keys.p99, times.keys.max
        );
    }
    let ratio = large.frames.p50.as_secs_f64() / small.frames.p50.as_secs_f64();
    println!(
        "a frame with {} steps takes {ratio:.2} times one with 100 steps (goal <= {FRAME_RATIO_MAX})",
        many.1
    );
    let [home_small, home_large] = &home(ledgers, frames);
    for ((_, steps), home) in [(&few, home_small), (&many, home_large)] {
        println!(
            "{steps:>7} steps: a frame of :home p50 {:?}, p99 {:?}",
            home.frames.p50, home.frames.p99
        );
    }
    let home_ratio = home_large.frames.p50.as_secs_f64() / home_small.frames.p50.as_secs_f64();
    println!("the same ratio for :home: {home_ratio:.2} (goal <= {FRAME_RATIO_MAX})");
    let resource_times = resources(if smoke { 300 } else { RESOURCES });
    for (what, took) in &resource_times {
        println!("resources {what}: {took:?} (goal < {RESOURCES_MAX:?} for {RESOURCES})");
    }
    let filtered = filters(&many);
    println!("the chart of {} steps: {:?}", many.1, chart(&many));
    let memory = proc_stats::memory_kb(std::process::id(), "VmRSS") / 1024;
    println!("memory, including the ledger's readers: {memory} MB (goal < {MEMORY_MAX_MB})");
    if !smoke {
        assert!(
            ratio <= FRAME_RATIO_MAX,
            "a frame depends on the number of steps"
        );
        assert!(
            large.frames.p99 <= FRAME_P99_MAX,
            "p99 of a frame: {:?}",
            large.frames.p99
        );
        assert!(
            home_ratio <= FRAME_RATIO_MAX,
            "a frame of :home depends on the number of steps"
        );
        assert!(
            home_large.frames.p99 <= FRAME_P99_MAX,
            "p99 of a frame of :home: {:?}",
            home_large.frames.p99
        );
        for (what, took) in resource_times {
            assert!(took < RESOURCES_MAX, "resources {what}: {took:?}");
        }
        assert!(
            large.keys.p99 <= KEY_P99_MAX,
            "p99 of a key: {:?}",
            large.keys.p99
        );
        assert!(
            filtered.0 < FIRST_PAGE_MAX,
            "a filter's first page: {:?}",
            filtered.0
        );
        assert!(filtered.1 < COUNT_MAX, "a filter's count: {:?}", filtered.1);
        assert!(memory < MEMORY_MAX_MB, "memory: {memory} MB");
    }
}

/// Writes a ledger with a deletion of this many steps: a network, a subnet and ports. Some of the steps are gone,
/// some are blocked.
fn build(path: &Path, steps: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let ledger = SqliteLedger::open(path, Options::default()).unwrap();
        support::start_deletion(&ledger, "one", &network(steps - 2)).await;
        for state in [
            gone::domain::model::StepState::Gone,
            gone::domain::model::StepState::Blocked,
        ] {
            support::claim_all_and_move_to(&ledger, state).await;
        }
        ledger.close().await;
    });
}

/// The plan of a network with a subnet and ports, whose names all have the same length.
fn network(ports: usize) -> Plan {
    let delete = |at: usize, kind: &str, name: String, before: &[u32]| {
        let key = support::key(kind, &uuid::Uuid::from_u128(at as u128).to_string());
        gone::domain::model::PlanStep {
            name,
            ..support::plan_step(at, Action::Delete, key, before)
        }
    };
    let mut steps: Vec<_> = (0..ports)
        .map(|at| delete(at, "port", format!("server-{at:07}"), &[]))
        .collect();
    let before: Vec<u32> = (0..).take(ports).collect();
    steps.push(delete(ports, "subnet", "web-v4".to_owned(), &before));
    let before: Vec<u32> = (0..).take(ports + 1).collect();
    steps.push(delete(ports + 1, "network", "web".to_owned(), &before));
    support::plan(steps)
}

/// The kind of each query that the ledger answered, and how long the answer took.
type Answers = Arc<Mutex<Vec<(&'static str, Duration)>>>;

/// Returns a console on this ledger, and the log of the queries that the ledger answers.
fn console(path: &Path) -> (TestConsole, Answers) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = SqliteLedger::open_reader(path).unwrap();
    let deletions =
        runtime.block_on(ledger.deletions(DeletionFilter::default(), Cursor::default()));
    let mut world = World::busy();
    world.deletions = deletions.unwrap().rows;
    world.snapshot.deletions = world.deletions.clone();
    let answers = Answers::default();
    let log = answers.clone();
    world.override_answer = Some(Box::new(move |query| {
        let began = Instant::now();
        let page = runtime.block_on(answer(&ledger, query))?;
        let name = match query {
            Query::Steps(_) => "steps",
            Query::StepCount(_) => "count",
            Query::Chart(_) => "chart",
            _ => "tree",
        };
        log.lock().unwrap().push((name, began.elapsed()));
        Some(page)
    }));
    (TestConsole::new(world, (COLUMNS, ROWS)), answers)
}

/// Answers a query as the engine does, from the ledger alone; `None` if the ledger does not answer such a query.
async fn answer(ledger: &SqliteLedger, query: &Query) -> Option<Result<Page, ControlError>> {
    let of = |deletion: &Option<String>, filter: &str| StepFilter {
        deletion_id: deletion.clone(),
        text: SearchQuery::parse(filter),
        ..StepFilter::default()
    };
    let page = match query {
        Query::Deletion(query::Deletion { id }) => {
            Page::Deletion(Box::new(ledger.deletion(id).await.unwrap()?))
        }
        Query::FrozenPlan(query::FrozenPlan { deletion_id, .. }) => {
            Page::FrozenPlan(ledger.frozen_plan(deletion_id, false).await.unwrap()?)
        }
        Query::Chart(query::Chart {
            deletion_id,
            columns,
        }) => Page::Chart(
            ledger
                .gantt(deletion_id, *columns, support::at(60))
                .await
                .unwrap()?,
        ),
        Query::Outline(query::Outline { deletion_id, below }) => {
            Page::Outline(ledger.outline(deletion_id, below.clone()).await.unwrap())
        }
        Query::BranchSteps(query::BranchSteps {
            deletion_id,
            branch,
            counts,
            from,
            limit,
        }) => {
            let steps = ledger.branch_steps(deletion_id, *branch, *counts, *from, *limit);
            Page::BranchSteps(steps.await.unwrap())
        }
        Query::Steps(query::Steps {
            deletion_id,
            filter,
            cursor,
            limit,
            ..
        }) => {
            let page = Cursor {
                after: cursor.clone(),
                limit: *limit,
            };
            let page = ledger.steps(of(deletion_id, filter), page).await.unwrap();
            Page::Steps(Paged {
                rows: page.rows,
                next: page.next,
            })
        }
        Query::StepCount(query::StepCount {
            deletion_id,
            filter,
            cursor,
            ..
        }) => {
            let counted = ledger.count_steps(of(deletion_id, filter), cursor.clone());
            let (steps, next) = counted.await.unwrap();
            Page::StepCount(query::Counted { steps, next })
        }
        _ => return None,
    };
    Some(Ok(page))
}

struct Times {
    p50: Duration,
    p99: Duration,
    max: Duration,
}

impl Times {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self {
            p50: all[all.len() / 2],
            p99: all[all.len() * 99 / 100],
            max: all[all.len() - 1],
        }
    }
}

struct DrawTimes {
    frames: Times,
    /// The times from a key until its frame is drawn, including the queries for the frame.
    keys: Times,
}

/// A console, and how long its frames took.
struct TimedConsole {
    console: TestConsole,
    before: Buffer,
    frame: Buffer,
    frames: Vec<Duration>,
    keys: Vec<Duration>,
}

impl TimedConsole {
    /// A console on this ledger, after these keys.
    fn after(path: &Path, keys: &str) -> Self {
        let (mut console, _) = console(path);
        console.press(keys);
        let empty = || Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
        Self {
            console,
            before: empty(),
            frame: empty(),
            frames: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Presses a key, and draws the next frame, which must differ.
    fn press(&mut self, key: &str) {
        let began = Instant::now();
        self.console.press(key);
        let drawing = Instant::now();
        // Draws as ratatui's terminal does, with two buffers in turn: each frame overwrites the one before the last.
        self.frame.reset();
        render(&self.console.state, &mut self.frame);
        let changed = self.before.diff_iter(&self.frame).count();
        self.frames.push(drawing.elapsed());
        self.keys.push(began.elapsed());
        assert!(changed > 0, "the key {key} changes nothing on the screen");
        std::mem::swap(&mut self.before, &mut self.frame);
    }

    fn times(self) -> DrawTimes {
        DrawTimes {
            frames: Times::of(self.frames),
            keys: Times::of(self.keys),
        }
    }
}

/// Draws frames for both ledgers in turn, so that the load of the machine affects both alike. `key` returns the key
/// before each frame.
fn draw_in_turn(
    ledgers: [&(PathBuf, usize); 2],
    keys: &str,
    frames: usize,
    key: impl Fn(usize) -> &'static str,
) -> [TimedConsole; 2] {
    let mut consoles = ledgers.map(|(path, _)| TimedConsole::after(path, keys));
    for n in 0..frames {
        for console in &mut consoles {
            console.press(key(n));
        }
    }
    consoles
}

/// Measures frames of the tree of a deletion, in which the row of all ports is unfolded, while the cursor moves up
/// and down and from end to end.
fn tree(ledgers: [&(PathBuf, usize); 2], frames: usize) -> [DrawTimes; 2] {
    // Opens the tree, and unfolds the folded row.
    let keys = "enter home down down enter";
    let key = |n| ["down", "pgdn", "up", "end", "home"][n % 5];
    draw_in_turn(ledgers, keys, frames, key).map(|timed| {
        let text = timed.console.text();
        assert!(!text.contains("├ …"), "a row has not been read:\n{text}");
        timed.times()
    })
}

/// Measures frames of `:home`, with the cursor on each of its rows in turn.
fn home(ledgers: [&(PathBuf, usize); 2], frames: usize) -> [DrawTimes; 2] {
    // The cursor moves down to the last row, and up again.
    let key = |n| if n % 6 < 3 { "down" } else { "up" };
    draw_in_turn(ledgers, ":home enter", frames, key).map(|timed| {
        let text = timed.console.text();
        assert!(text.contains("── home"), "{text}");
        timed.times()
    })
}

/// Measures how long it takes until a list of this many resources is on the screen: as it arrives, sorted by another
/// column, and filtered. The cloud answers at once.
fn resources(rows: u32) -> [(&'static str, Duration); 4] {
    let mut world = World::busy();
    world.listings[0].rows = (1..=rows)
        .map(|n| fake::resource("network", n, &format!("net-{n}")))
        .collect();
    let mut console = TestConsole::new(world, (COLUMNS, ROWS));
    let timed = |console: &mut TestConsole, keys: &str| {
        let began = Instant::now();
        console.press(keys);
        let mut frame = Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
        render(&console.state, &mut frame);
        began.elapsed()
    };
    let thousands = gone::present::thousands(rows);
    let listed = timed(&mut console, ":network enter");
    let shown = format!("network {thousands} ");
    assert!(console.text().contains(&shown), "{}", console.text());
    let sorted = timed(&mut console, "s");
    let backwards = timed(&mut console, "S");
    let last = format!("net-{rows}");
    console.press("home");
    assert!(console.text().contains(&last), "{}", console.text());
    console.press("/");
    let began = Instant::now();
    console.handle(gone::frontends::console::Event::Paste(last.clone()));
    let mut frame = Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
    render(&console.state, &mut frame);
    let filtered = began.elapsed();
    let shown = format!("network 1 of {thousands} ");
    assert!(console.text().contains(&shown), "{}", console.text());
    [
        ("listed", listed),
        ("sorted", sorted),
        ("sorted backwards", backwards),
        ("filtered", filtered),
    ]
}

/// Filters the steps of a deletion by several texts. Returns the longest time of a first page and of an exact count.
fn filters((path, steps): &(PathBuf, usize)) -> (Duration, Duration) {
    let ports = steps - 2;
    let mut longest = (Duration::ZERO, Duration::ZERO);
    let last = format!("server-{:07}", ports - 1);
    for (what, text, matching) in [
        ("many matches", "server", ports),
        ("the last step as its match", last.as_str(), 1),
        ("no match", "nowhere", 0),
    ] {
        let (mut console, answers) = console(path);
        console.press("enter");
        answers.lock().unwrap().clear();
        console.press("/");
        console.handle(gone::frontends::console::Event::Paste(text.to_owned()));
        console.press("enter");
        let answers = answers.lock().unwrap().clone();
        let first = answers.iter().find(|(name, _)| *name == "steps").unwrap().1;
        let all: Duration = answers.iter().map(|(_, took)| *took).sum();
        let text = console.text();
        let total = matching.to_string();
        let found: String = text.chars().filter(|c| *c != ',').collect();
        assert!(
            found.contains(&format!("{total} of {steps} steps fit")),
            "{text}"
        );
        println!("{steps} steps, a filter with {what}: first page {first:?}, exact count {all:?}");
        longest = (longest.0.max(first), longest.1.max(all));
    }
    longest
}

/// Returns how long the ledger takes to answer with the chart of the whole deletion.
fn chart((path, _): &(PathBuf, usize)) -> Duration {
    let (mut console, answers) = console(path);
    console.press("enter t");
    assert!(
        console.text().contains("chart of deletion"),
        "{}",
        console.text()
    );
    let answers = answers.lock().unwrap();
    let chart = answers.iter().find(|(name, _)| *name == "chart");
    chart.unwrap().1
}
