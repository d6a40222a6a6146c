//! The output of `list`, `show`, `tree`, `explain`, `retry` and other verbs, and how rows are formatted.

use std::io::{self, Write};

use chrono::{DateTime, Utc};
use gone::control::{
    Command, Explanation, GateStatus, GateTraffic, KindInfo, NotEligible, Retried, SiteListing,
};
use gone::domain::activity::{Reconciler, ReconcilerError, ReconcilerStatus};
use gone::domain::attention::{Cause, CauseGroup};
use gone::domain::engines::{EngineRole, EngineRow};
use gone::domain::kinds::FieldMeanings;
use gone::domain::model::*;
use gone::frontends::cli::args::Format;
use gone::frontends::cli::output::{Printer, Style, Tolerant};
use gone::frontends::cli::plan_view::{in_order, write_plan};
use gone::frontends::cli::tree::{draw, nest, write_tree};
use gone::frontends::cli::{Exit, What};
use gone::present::Sheet;
use serde_json::{Value, json};

use crate::fake::*;

const HOSTILE: &str = "a\u{1b}]2;x\u{7}\u{9b}31m\u{202e}\u{200b}b\r\n";

fn printed(format: Format, style: Style, print: impl FnOnce(&mut Printer<'_>)) -> String {
    let mut out = Vec::new();
    print(&mut Printer::new(&mut out, style, format));
    String::from_utf8(out).unwrap()
}

fn rows(format: Format, style: Style, sheet: &Sheet, values: &[Value]) -> String {
    printed(format, style, |to| to.rows(sheet, values).unwrap())
}

fn assert_inert(text: &str) {
    let live = |c: char| gone::domain::text::is_hostile(c) && c != '\n';
    assert!(!text.chars().any(live), "{text:?}");
}

#[test]
fn hostile_names_are_escaped_in_every_format() {
    let mut sheet = Sheet::new([("NAME", 1)]);
    sheet.push([HOSTILE.to_owned()]);
    let values = [json!({ "name": HOSTILE })];
    for format in [
        Format::Table,
        Format::Csv,
        Format::Json,
        Format::Jsonl,
        Format::Yaml,
    ] {
        let text = rows(format, Style::default(), &sheet, &values);
        assert_inert(&text);
        assert!(
            text.contains("202e"),
            "{format:?} shows the character as an escape: {text}"
        );
    }
    // JSON is for programs: a parser gets exactly the cloud's text.
    let text = rows(Format::Jsonl, Style::default(), &sheet, &values);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["name"], HOSTILE);
}

#[test]
fn ascii_style_writes_only_ascii() {
    let style = Style {
        ascii: true,
        ..Style::default()
    };
    let mut sheet = Sheet::new([("NAME", 1)]);
    sheet.push(["名前 é 🙂".to_owned()]);
    let values = [json!({ "name": "名前 é 🙂" })];
    for format in [Format::Table, Format::Csv, Format::Json, Format::Yaml] {
        let text = rows(format, style, &sheet, &values);
        assert!(text.is_ascii(), "{text}");
    }
    let text = rows(Format::Json, style, &sheet, &values);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value[0]["name"], "名前 é 🙂");
}

#[test]
fn csv_cells_that_look_like_formulas_get_an_apostrophe() {
    let mut sheet = Sheet::new([("A", 1)]);
    for cell in ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "x=1", "a,\"b\"", ""] {
        sheet.push([cell.to_owned()]);
    }
    let text = rows(Format::Csv, Style::default(), &sheet, &[]);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let cells: Vec<String> = reader
        .records()
        .map(|record| record.unwrap()[0].to_owned())
        .collect();
    assert_eq!(
        cells,
        [
            "'=1+1", "'+1", "'-1", "'@x", "'\\tx", "'\\rx", "x=1", "a,\"b\"", ""
        ]
    );
}

#[test]
fn columns_align_by_display_width_and_only_a_terminal_cuts_cells() {
    let note = "port 4fdb1c2d-0000-4000-8000-000000000001 is in use by a server";
    let mut sheet = Sheet::new([("NAME", 1), ("NOTE", 1)]);
    sheet.push(["日本".to_owned(), note.to_owned()]);
    sheet.push(["ab".to_owned(), String::new()]);
    let text = rows(Format::Table, Style::default(), &sheet, &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "NAME  NOTE");
    assert_eq!(lines[1], format!("日本  {note}"));
    assert_eq!(lines[2], "ab    -");

    // A cell is cut after a whole word: half an id would name nothing.
    let cut = |width: usize| on_screen(&sheet, width).lines().nth(1).unwrap().to_owned();
    assert_eq!(cut(69), format!("日本  {note}"));
    assert_eq!(
        cut(68),
        "日本  port 4fdb1c2d-0000-4000-8000-000000000001 is in use by a …"
    );
    assert_eq!(cut(48), "日本  port …");
}

fn on_screen(sheet: &Sheet, width: usize) -> String {
    let style = Style {
        width: Some(width),
        ..Style::default()
    };
    rows(Format::Table, style, sheet, &[])
}

#[test]
fn a_narrow_screen_drops_the_columns_of_least_weight_and_wraps_no_row() {
    let mut sheet = Sheet::new([("STATE", 9), ("ID", 5), ("SITE", 3), ("WHY", 7)]);
    let id = "4fdb1c2d-0000-4000-8000-000000000001";
    for why in ["the port is in use by a server of another project", ""] {
        sheet.push(["stuck", id, "prod/RegionOne", why].map(str::to_owned));
    }
    for (width, headings) in [
        (120, "STATE ID SITE WHY"),
        (110, "STATE ID SITE WHY"),
        // A column of low weight takes no space from a sentence.
        (109, "STATE ID WHY"),
        (65, "STATE ID WHY"),
        (64, "STATE WHY"),
        (10, "STATE"),
    ] {
        let text = on_screen(&sheet, width);
        let lines: Vec<&str> = text.lines().collect();
        let shown: Vec<&str> = lines[0].split_whitespace().collect();
        assert_eq!(shown.join(" "), headings, "{width}");
        let widest = lines.iter().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width}: {text}");
        assert_eq!(text.contains(id), headings.contains("ID"), "{text}");
    }
}

#[test]
fn only_states_are_coloured_and_only_if_colour_is_allowed() {
    let mut sheet = Sheet::new([("STATE", 1), ("NAME", 1)]);
    sheet.push(["stuck".to_owned(), "gone".to_owned()]);
    let plain = rows(Format::Table, Style::default(), &sheet, &[]);
    assert!(!plain.contains('\u{1b}'));
    let style = Style {
        colour: true,
        ..Style::default()
    };
    let text = rows(Format::Table, style, &sheet, &[]);
    assert!(text.contains("\u{1b}[31mstuck\u{1b}[0m  gone"), "{text:?}");
}

/// A pipe that accepts this many writes, and is then closed by its reader.
struct ClosingPipe(usize);

impl Write for ClosingPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(1) {
            None => Err(io::ErrorKind::BrokenPipe.into()),
            Some(left) => {
                self.0 = left;
                Ok(bytes.len())
            }
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.write(&[]).map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_output_pipe_does_not_change_the_exit_code() {
    for writes in 0..4 {
        let mut world = World::new();
        world.deletions = [deletion(DeletionState::Stuck)].into();
        let mut out = Tolerant(ClosingPipe(writes));
        let runner = Runner::new(world);
        let (exit, err) = runner
            .run_into("delete network/web --yes --wait", &mut out)
            .await;
        assert_eq!(exit, Exit::Stuck, "{err}");
    }
    // An output that takes no more bytes is an internal error.
    let mut full: &mut [u8] = &mut [];
    let runner = Runner::new(World::new());
    let (exit, err) = runner.run_into("list sites", &mut full).await;
    assert_eq!(exit, Exit::Internal);
    assert!(err.contains("cannot write the output"), "{err}");
}

#[tokio::test(start_paused = true)]
async fn lists_read_every_page() {
    let mut world = World::new();
    world.page_rows = 2;
    world.steps = (0..5)
        .map(|id| step(id, "port", StepState::Stuck, &[]))
        .collect();
    world.steps.push(step(9, "port", StepState::Blocked, &[]));
    let ran = run(world, "list stuck -o jsonl").await;
    assert_eq!(ran.exit, Exit::Done);
    assert_eq!(ran.out.lines().count(), 5);
    for line in ran.out.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["state"], "stuck");
    }
}

#[tokio::test(start_paused = true)]
async fn p02_list_stuck_names_the_blocker_and_the_error() {
    let mut world = World::new();
    let mut port_step = step(7, "port", StepState::Stuck, &[]);
    port_step.blockers = vec![blocker()];
    port_step.last_error = Some(error(ErrorClass::Blocked));
    world.steps = vec![port_step];
    let ran = run(world, "list stuck").await;
    for word in [
        SHORT,
        "2026-03-01T12:00:00Z",
        "2/8",
        "floatingip \"203.0.113.9\" fip-1 at prod/one (project demo",
        "not in this plan",
        "409 PortInUse: port is in use (req-1)",
    ] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
}

#[tokio::test(start_paused = true)]
async fn p02_list_stuck_begins_with_the_blocker_on_a_narrow_terminal() {
    let mut world = World::new();
    let mut port_step = step(7, "port", StepState::Stuck, &[]);
    port_step.blockers = vec![blocker()];
    port_step.last_error = Some(error(ErrorClass::Blocked));
    world.steps = vec![port_step];
    let mut runner = Runner::new(world);
    runner.style.width = Some(80);
    let ran = runner.run("list stuck").await;
    assert!(
        ran.out
            .contains("blocked by floatingip \"203.0.113.9\" fip-1"),
        "{}",
        ran.out
    );
}

#[tokio::test(start_paused = true)]
async fn n12_list_stuck_includes_refused_deletions_with_the_reason() {
    let world = || {
        let mut world = World::new();
        let mut refused = deletion(DeletionState::Refused);
        refused.refused = vec![refusal()];
        world.deletions = [refused, deletion(DeletionState::Running)].into();
        // gone retries both blocked steps; for the second, a person must remove the blocker.
        let mut port_step = step(8, "port", StepState::Blocked, &[]);
        port_step.blockers = vec![blocker()];
        world.steps = vec![
            step(6, "port", StepState::Blocked, &[]),
            port_step,
            step(9, "port", StepState::Stuck, &[]),
        ];
        world
    };
    let reason = refusal().reason;
    for format in ["table", "csv", "json", "jsonl", "yaml"] {
        let ran = run(world(), &format!("list stuck -o {format}")).await;
        assert_eq!(ran.exit, Exit::Done);
        assert!(ran.out.contains(&reason), "{format}: {}", ran.out);
    }
    let ran = run(world(), "list stuck -o csv").await;
    let mut rows = csv::Reader::from_reader(ran.out.as_bytes());
    let heads: Vec<String> = rows
        .records()
        .map(|row| row.unwrap().iter().take(3).collect::<Vec<_>>().join(" "))
        .collect();
    let wanted = [
        format!("9 {SHORT} stuck"),
        format!("8 {SHORT} blocked"),
        format!(" {SHORT} refused"),
    ];
    assert_eq!(heads, wanted);
    let ran = run(world(), "list stuck -o jsonl").await;
    let last: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["id"], &last["state"]), (&json!(0), &json!("stuck")));
    assert_eq!(last["last_error"]["type"], "Refused");
}

#[tokio::test(start_paused = true)]
async fn the_lists_of_deletions_tombstones_and_sites_have_their_columns() {
    let ran = run(World::new(), "list").await;
    assert!(
        ran.out
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("deadbeef  running"),
        "{}",
        ran.out
    );
    let mut world = World::new();
    world.tombstones = vec![Tombstone {
        record_id: 5,
        key: key("network", "n-1"),
        phase: Phase::Gone,
        deleted_at: Some(start()),
        gone_at: Some(start()),
        incarnation: 1,
        recreated: 2,
        deletion_id: DELETION.into(),
    }];
    let ran = run(world, "list tombstones -o csv").await;
    assert!(
        ran.out
            .contains("5,gone,network,n-1,prod/one,2026-03-01T12:00:00Z"),
        "{}",
        ran.out
    );
    let ran = run(World::new(), "list sites --cloud lab").await;
    assert!(
        ran.out.contains("lab/one") && !ran.out.contains("prod/one"),
        "{}",
        ran.out
    );
    let ran = run(World::new(), "list orphans --older-than 1h").await;
    assert_eq!(ran.exit, Exit::Usage);
}

#[tokio::test(start_paused = true)]
async fn older_than_selects_tombstones_by_the_time_in_their_phase() {
    let hours_ago = |hours: i64| start() - chrono::TimeDelta::hours(hours);
    let tombstone = |id: &str, phase, gone_at| Tombstone {
        record_id: 5,
        key: key("network", id),
        phase,
        deleted_at: Some(hours_ago(30)),
        gone_at,
        incarnation: 1,
        recreated: 0,
        deletion_id: DELETION.into(),
    };
    let mut world = World::new();
    world.tombstones = vec![
        tombstone("deleting-30h", Phase::Deleting, None),
        tombstone("gone-29h", Phase::Gone, Some(hours_ago(29))),
        tombstone("gone-1h", Phase::Gone, Some(hours_ago(1))),
        Tombstone {
            deleted_at: None,
            ..tombstone("lives", Phase::Released, None)
        },
    ];
    let ran = run(world, "list tombstones --older-than -o json").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    let ids: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["deleting-30h", "gone-29h"]);
}

#[tokio::test(start_paused = true)]
async fn a_site_that_fails_to_list_is_an_error_and_not_empty() {
    let mut world = World::new();
    world.kinds = vec![KindInfo {
        name: KindName::new("network"),
        aliases: vec!["net".into()],
        columns: vec![
            ("Status".into(), "status".into()),
            ("Subnets".into(), "subnets[]".into()),
        ],
        fields: FieldMeanings::default(),
        has_dependents: true,
        is_counted: true,
    }];
    let resource = Resource {
        key: key("network", "n-1"),
        name: "web".into(),
        project_id: "demo".into(),
        tags: vec![],
        attributes: json!({"status": "ACTIVE", "subnets": ["s-1", "s-2"]}),
    };
    let listing = |region: &str, rows, error: Option<&str>| SiteListing {
        site: Site::region("prod", region),
        rows,
        error: error.map(str::to_owned),
        class: None,
        names: Default::default(),
        at: start(),
    };
    world.listings = vec![
        listing("one", vec![resource], None),
        listing("two", vec![], Some("503 from neutron")),
    ];
    let runner = Runner::new(world);
    let ran = runner.run("list Net").await;
    assert_eq!(ran.exit, Exit::Unreachable);
    assert!(
        ran.out
            .contains("NAME  ID   STATUS  SUBNETS   PROJECT  SITE"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("web   n-1  ACTIVE  s-1, s-2  demo     prod/one"),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("prod/two: 503 from neutron"),
        "{}",
        ran.err
    );
    // The letter case of the kind changes nothing.
    assert_eq!(runner.run("list network").await.out, ran.out);
    assert_eq!(runner.run("list NETWORK").await.out, ran.out);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_list_suggests_the_nearest_list_or_kind() {
    for &list in What::LISTS {
        let what: What = list.parse().unwrap();
        assert!(!matches!(what, What::Kind(_)), "{list}");
        assert_eq!(what.to_string(), list);
    }
    let mut world = World::new();
    world.kinds = vec![kind("network", &[]), kind("stack", &[])];
    let runner = Runner::new(world);
    for (word, near) in [
        ("stcuk", "stuck"),
        ("retying", "retrying"),
        ("netwrok", "network"),
    ] {
        let ran = runner.run(&format!("list {word}")).await;
        assert_eq!(ran.exit, Exit::Usage, "{word}");
        let wanted = format!("did you mean \"{near}\"?");
        assert!(ran.err.contains(&wanted), "{word}: {}", ran.err);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_listing_exits_by_the_class_of_its_error() {
    let table = [
        (ErrorClass::Auth, Exit::Auth),
        (ErrorClass::Fatal, Exit::Usage),
        (ErrorClass::Unavailable, Exit::Unreachable),
    ];
    for (class, exit) in table {
        let mut world = World::new();
        world.kinds = vec![KindInfo {
            name: KindName::new("network"),
            aliases: vec![],
            columns: vec![],
            fields: FieldMeanings::default(),
            has_dependents: true,
            is_counted: true,
        }];
        world.listings = vec![SiteListing {
            site: Site::region("prod", "one"),
            rows: vec![],
            error: Some("why".into()),
            class: Some(class),
            names: Default::default(),
            at: start(),
        }];
        assert_eq!(run(world, "list network").await.exit, exit, "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn watch_names_the_resource_of_each_event_whose_step_is_known() {
    let mut world = World::new();
    world.deletions = [
        deletion(DeletionState::Running),
        deletion(DeletionState::Running),
        deletion(DeletionState::Running),
        deletion(DeletionState::Gone),
    ]
    .into();
    world.steps = vec![step(7, "port", StepState::Running, &[])];
    let event = |seq, step_id, message: &str| Event {
        seq,
        at: start(),
        deletion_id: Some(DELETION.into()),
        step_id: Some(step_id),
        kind: EventKind::Attempt,
        message: message.to_owned(),
        data: Value::Null,
    };
    world.new_events = [
        event(1, 7, "DELETE /v2.0/ports/port-7 204"),
        // The step of this event was pruned.
        event(2, 8, "confirmed gone: port port8"),
    ]
    .into();
    let ran = run(world, "watch deadbeef").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    for line in [
        "2026-03-01T12:00:00Z  deadbeef  port port7: DELETE /v2.0/ports/port-7 204\n",
        "2026-03-01T12:00:00Z  deadbeef  confirmed gone: port port8\n",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_prints_the_last_events_of_a_deletion_that_ends_after_they_were_read() {
    let mut world = World::new();
    world.deletions = [
        deletion(DeletionState::Running),
        deletion(DeletionState::Running),
        deletion(DeletionState::Gone),
    ]
    .into();
    let event = |seq, message: &str| Event {
        seq,
        at: start(),
        deletion_id: Some(DELETION.into()),
        step_id: None,
        kind: EventKind::DeletionState,
        message: message.to_owned(),
        data: Value::Null,
    };
    world.new_events = [event(1, "running")].into();
    world.events = vec![event(1, "running"), event(2, "stopping"), event(3, "gone")];
    let ran = run(world, "watch deadbeef -o jsonl").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let seqs = ran.out.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["seq"].as_i64().unwrap()
    });
    assert_eq!(seqs.collect::<Vec<_>>(), [1, 2, 3], "{}", ran.out);
}

#[tokio::test(start_paused = true)]
async fn show_lists_the_blocked_steps_and_the_last_20_events() {
    let mut world = World::new();
    let mut port_step = step(7, "port", StepState::Blocked, &[]);
    port_step.blockers = vec![blocker()];
    world.steps = vec![port_step, step(8, "port", StepState::Gone, &[])];
    world.events = (1..=30)
        .map(|seq| Event {
            seq,
            at: start(),
            deletion_id: Some(DELETION.into()),
            step_id: Some(7),
            kind: EventKind::Attempt,
            message: format!("attempt {seq}."),
            data: Value::Null,
        })
        .collect();
    let runner = Runner::new(world);
    let ran = runner.run("show deadbeef").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    for word in [
        DELETION,
        "ticket 4711",
        "ada",
        "port-7",
        "2026-03-01T12:00:00Z  port port7: attempt 30.",
        "attempt 11.",
    ] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    assert!(
        !ran.out.contains("attempt 10.") && !ran.out.contains("port-8"),
        "{}",
        ran.out
    );
    let ran = runner.run("show deadbeef -o json").await;
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["id"], DELETION);
    assert_eq!(shown["attention"][0]["id"], 7);

    let ran = runner.run("show cafebabe").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(
        ran.err.contains("no deletion ends with cafebabe"),
        "{}",
        ran.err
    );
}

fn network_steps() -> Vec<Step> {
    let mut steps = vec![
        step(1, "network", StepState::Waiting, &[2, 3, 4, 5, 6, 7]),
        step(2, "subnet", StepState::Waiting, &[3, 4, 5, 6, 7]),
    ];
    steps.extend((3..=6).map(|id| step(id, "port", StepState::Gone, &[])));
    let mut port_step = step(7, "port", StepState::Blocked, &[]);
    port_step.blockers = vec![blocker()];
    steps.push(port_step);
    steps
}

#[test]
fn a_tree_shows_each_step_once_and_folds_similar_steps() {
    let steps = network_steps();
    let style = Style {
        ascii: true,
        ..Style::default()
    };
    let text = printed(Format::Table, style, |to| {
        write_tree(to, &nest(&steps)).unwrap();
    });
    assert_eq!(
        text,
        "delete network network1 (network-1) [waiting]\n\
         `- delete subnet subnet2 (subnet-2) [waiting]\n   \
            |- delete 4 ports [gone]\n   \
            `- delete port port7 (port-7) [blocked] blocked by floatingip \"203.0.113.9\" fip-1 \
            at prod/one (project demo, since 2026-03-01T12:00:00Z, not in this plan)\n"
    );
}

/// Draws the tree of a network whose subnet has this name, with one step at another site.
fn drawn_tree(format: Format, name: &str) -> String {
    let mut steps = network_steps();
    steps[1].resource.name = name.to_owned();
    steps[6].resource.key.site = Site::region("prod", "two");
    printed(format, Style::default(), |to| {
        assert!(draw(to, &nest(&steps)).unwrap());
    })
}

#[test]
fn a_tree_is_drawn_with_folded_groups_sites_and_states() {
    for (name, format) in [
        ("tree_dot", Format::Dot),
        ("tree_mermaid", Format::Mermaid),
        ("tree_svg", Format::Svg),
    ] {
        insta::assert_snapshot!(name, drawn_tree(format, "web-v4"));
    }
    for format in [Format::Dot, Format::Mermaid, Format::Svg] {
        let drawing = drawn_tree(format, "web-v4");
        assert!(drawing.contains("delete 4 ports [gone]"), "{drawing}");
        assert!(drawing.contains("prod/two"), "{drawing}");
        assert!(
            drawing.contains("#ffe0b2"),
            "the colour of a blocked step: {drawing}"
        );
    }
}

#[test]
fn hostile_names_stay_text_in_drawings() {
    let hostile = "\"];x [label=\"<script>alert(1)</script>&#59;\u{202e}\u{1b}";
    for format in [Format::Dot, Format::Mermaid, Format::Svg] {
        let drawing = drawn_tree(format, hostile);
        assert_inert(&drawing);
        if format == Format::Dot {
            assert!(drawing.contains("\\\"];x [label=\\\""), "{drawing}");
        } else {
            assert!(!drawing.contains("\"];x"), "{drawing}");
            assert!(!drawing.contains("<script>"), "{drawing}");
        }
    }
    let svg = drawn_tree(Format::Svg, hostile);
    let page = scraper::Html::parse_fragment(&svg);
    let names = page
        .tree
        .nodes()
        .filter_map(|node| node.value().as_element());
    let known = ["html", "head", "body", "svg", "rect", "text", "path"];
    for element in names {
        assert!(known.contains(&element.name()), "<{}>", element.name());
        assert!(element.attrs().all(|(name, _)| !name.starts_with("on")));
    }
}

#[tokio::test(start_paused = true)]
async fn tree_draws_svg_and_plan_refuses_svg() {
    let mut world = World::new();
    world.steps = network_steps();
    let ran = run(world, "tree deadbeef -o svg").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert!(ran.out.starts_with("<svg"), "{}", ran.out);
    let ran = run(World::new(), "plan network/web@prod/one -o svg").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("dot -Tsvg"), "{}", ran.err);
}

#[test]
fn a_tree_of_a_cycle_ends_and_shows_every_step() {
    let mut steps = network_steps();
    steps.push(step(8, "router", StepState::Waiting, &[9]));
    steps.push(step(9, "router", StepState::Waiting, &[8]));
    fn count(nodes: &[gone::frontends::cli::tree::Node<'_>]) -> usize {
        nodes.iter().map(|node| 1 + count(&node.children)).sum()
    }
    assert_eq!(count(&nest(&steps)), steps.len());
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_complete_if_a_step_has_more_dependencies_than_its_row_lists() {
    let mut world = World::new();
    let ports: Vec<i64> = (2..=602).collect();
    world.steps = vec![step(1, "network", StepState::Waiting, &ports)];
    let all = ports.iter();
    world
        .steps
        .extend(all.map(|id| step(*id, "port", StepState::Gone, &[])));
    let mut runner = Runner::new(world);
    runner.style.ascii = true;
    let ran = runner.run("tree deadbeef").await;
    assert!(
        ran.out.ends_with(
            "delete network network1 (network-1) [waiting]\n`- delete 601 ports [gone]\n"
        ),
        "{}",
        ran.out
    );
    let ran = runner.run("tree deadbeef -o json").await;
    let roots: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(roots.as_array().unwrap().len(), 1);
    assert_eq!(roots[0]["children"].as_array().unwrap().len(), 601);
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_nested_in_json() {
    let mut world = World::new();
    world.steps = network_steps();
    let ran = run(world, "tree deadbeef -o json").await;
    let roots: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(roots[0]["id"], 1);
    assert_eq!(roots[0]["children"][0]["id"], 2);
    assert_eq!(
        roots[0]["children"][0]["children"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
}

#[tokio::test(start_paused = true)]
async fn p02_explain_names_the_blocker_and_the_next_action() {
    let mut world = World::new();
    world.explanation = Some(Explanation {
        target: target("network", "n-1", "web"),
        deletion: Some(deletion(DeletionState::Running)),
        step: None,
        tombstone: None,
        lines: vec!["a floating IP uses port vm-1".into()],
        blockers: vec![blocker()],
        refused: vec![],
        next_action: "ask project demo to free it".into(),
        relations: Vec::new(),
    });
    let runner = Runner::new(world);
    let ran = runner.run("explain network/web@prod/one").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    for word in [
        "uses port vm-1",
        "blocked by floatingip \"203.0.113.9\" fip-1",
        "Next: ask project demo",
        SHORT,
    ] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    let ran = runner.run("explain network/web@prod/one -o json").await;
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["blockers"][0]["id"], "fip-1");
}

#[tokio::test(start_paused = true)]
async fn p02_explain_with_a_deletion_id_refers_to_show() {
    for id in [DELETION, SHORT] {
        let ran = Runner::new(World::new())
            .run(&format!("explain {id}"))
            .await;
        assert_eq!(ran.exit, Exit::Usage, "{}", ran.err);
        for word in [id, "KIND/ID-or-NAME", "`gone show ID` shows a deletion"] {
            assert!(ran.err.contains(word), "{word}: {}", ran.err);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_id_selects_the_deletion_in_retry_cancel_pause_and_resume() {
    let runner = Runner::new(World::new());
    for verb in ["retry", "cancel", "pause", "resume"] {
        let ran = runner.run(&format!("{verb} deadbeef")).await;
        assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
        assert!(
            ran.out.contains("deadbeef") && ran.out.contains('3'),
            "{}",
            ran.out
        );
    }
    let commands = runner
        .fake
        .submitted()
        .into_iter()
        .map(|envelope| match envelope.command {
            Command::Retry { deletion_id } => ("retry", deletion_id),
            Command::Cancel { deletion_id } => ("cancel", deletion_id),
            Command::Pause { deletion_id } => ("pause", deletion_id),
            Command::Resume { deletion_id } => ("resume", deletion_id),
            other => panic!("{other:?}"),
        });
    let expected = ["retry", "cancel", "pause", "resume"].map(|verb| (verb, DELETION.to_owned()));
    assert_eq!(commands.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn p06_the_reason_of_each_command_goes_to_the_engine() {
    let runner = Runner::new(World::new());
    let lines = [
        "retry deadbeef",
        "retry 1742",
        "retry --all",
        "cancel deadbeef",
        "pause deadbeef",
        "resume prod/one",
        "pause --engine admin1",
        "drift deadbeef --accept",
    ];
    for line in lines {
        let ran = runner.run(&format!("{line} --reason ticket-4711")).await;
        assert_eq!(ran.exit, Exit::Done, "{line}: {}", ran.err);
    }
    let reasons = runner.fake.submitted().into_iter().map(|it| it.reason);
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        vec!["ticket-4711"; lines.len()]
    );
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_ends_a_verb_with_several_ids_with_one_message() {
    for embedded in [false, true] {
        let mut runner = Runner::new(World::new());
        runner.embedded = embedded;
        runner.interrupt.cancel();
        let ran = runner.run("retry deadbeef 1742 deadbeef").await;
        assert_eq!(ran.exit, Exit::Interrupted);
        assert_eq!(ran.err, "gone: cannot retry deadbeef: interrupted\n");
        assert!(runner.fake.submitted().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn retry_all_accepts_kind_aliases_and_refuses_an_unknown_kind_or_site() {
    let world = || {
        let mut world = World::new();
        world.kinds = vec![
            kind("network", &["networks", "net"]),
            kind("port", &["ports"]),
        ];
        world
    };
    let runner = Runner::new(world());
    for word in ["networks", "Network", "net"] {
        let line = format!("retry --all --site prod/one --kind {word}");
        runner.run(&line).await;
    }
    let submitted = runner.fake.submitted();
    assert_eq!(submitted.len(), 3);
    for envelope in submitted {
        let Command::RetryMatching { filter, .. } = envelope.command else {
            panic!("{envelope:?}");
        };
        assert_eq!(filter.kind, Some(KindName::new("network")));
        assert_eq!(filter.site, Some(Site::region("prod", "one")));
    }
    for (options, words) in [
        (
            "--kind netwrok",
            ["unknown kind \"netwrok\"", "did you mean \"network\"?"],
        ),
        (
            "--site prod/oen",
            ["no site \"prod/oen\"", "did you mean \"prod/one\"?"],
        ),
    ] {
        let runner = Runner::new(world());
        let line = format!("retry --all --dry-run {options}");
        let ran = runner.run(&line).await;
        assert_eq!(ran.exit, Exit::Usage, "{options}: {}", ran.out);
        for word in words {
            assert!(ran.err.contains(word), "{options}: {}", ran.err);
        }
        assert!(runner.fake.submitted().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn retry_all_prints_how_many_steps_can_and_cannot_be_retried() {
    let retried = |eligible, left, moved| {
        let mut world = World::new();
        let reason = "waits for another step that is stuck".to_owned();
        world.retried = Retried {
            eligible,
            not_eligible: vec![NotEligible {
                reason,
                steps: left,
            }],
            moved,
        };
        world
    };
    let ran = run(retried(2, 1, 0), "retry --all --dry-run").await;
    assert_eq!(
        ran.out,
        "2 steps can be retried, 1 cannot; nothing was retried\n  1: waits for another step that is stuck\n"
    );
    let ran = run(retried(1, 1_200, 1), "retry --all").await;
    assert!(
        ran.out
            .starts_with("1 step can be retried, 1,200 cannot; 1 retried\n"),
        "{}",
        ran.out
    );
}

#[tokio::test(start_paused = true)]
async fn retry_accepts_step_numbers_and_continues_after_an_unknown_id() {
    let runner = Runner::new(World::new());
    let ran = runner.run("retry cafebabe 1742 deadbeef").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("cannot retry cafebabe"), "{}", ran.err);
    let submitted = runner.fake.submitted();
    assert!(matches!(
        submitted[0].command,
        Command::RetryStep { step_id: 1742 }
    ));
    assert!(matches!(submitted[1].command, Command::Retry { .. }));
    assert_eq!(submitted.len(), 2);
}

fn drawn(format: Format) -> String {
    let mut plan = plan();
    plan.steps[2].name = "say \"hi\" \\ <b>#1".into();
    printed(format, Style::default(), |to| {
        write_plan(to, &plan).unwrap()
    })
}

#[test]
fn plan_steps_are_sorted_by_their_dependencies() {
    let plan = plan();
    let order: Vec<u32> = in_order(&plan.steps).iter().map(|step| step.id).collect();
    assert_eq!(order, [2, 3, 1, 0]);
    let mut circle = plan.steps.clone();
    circle[2].depends_on = vec![0];
    assert_eq!(in_order(&circle).len(), 4);
}

#[test]
fn n05_a_plan_shows_its_automatic_and_unset_resources() {
    let text = drawn(Format::Table);
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
    assert!(at("4 steps, 1 automatic, 1 unset, 0 refused, at most 9 calls") < at("ORDER"));
    assert!(at("ORDER") < at("Automatic"));
    assert!(at("Automatic") < at("port-4"));
    assert!(at("port-4") < at("Unset"));
    assert!(at("Unset") < at("floatingip-5"));
    assert!(at("floatingip-5") < at("trunk t1 is disabled"));
    assert!(!text.contains("Refused"));
}

#[test]
fn a_plan_drawing_has_edges_from_earlier_to_later_steps() {
    let dot = drawn(Format::Dot);
    assert!(dot.starts_with("digraph plan {") && dot.trim_end().ends_with('}'));
    assert!(
        dot.contains("s1 -> s0;") && dot.contains("s2 -> s1;"),
        "{dot}"
    );
    assert!(
        dot.contains("s2 [label=\"delete port say \\\"hi\\\" \\\\ <b>#1\"];"),
        "{dot}"
    );
    assert!(dot.contains("style=dotted") && dot.contains("style=dashed"));
    let mermaid = drawn(Format::Mermaid);
    assert!(mermaid.starts_with("flowchart LR\n"));
    assert!(
        mermaid.contains("s2[\"delete port say #quot;hi#quot; \\ #lt;b#gt;#35;1\"]"),
        "{mermaid}"
    );
    assert!(mermaid.contains("s1 --> s0"));
    let csv = drawn(Format::Csv);
    assert!(csv.contains("automatic,"), "{csv}");
    assert!(csv.contains("'=cmd|' /C calc'!A0"), "{csv}");
}

#[test]
fn a_plan_prints_ten_refusals_and_counts_the_others() {
    let plan = Plan {
        refused: vec![refusal(); 10_000],
        ..plan()
    };
    let text = printed(Format::Table, Style::default(), |to| {
        write_plan(to, &plan).unwrap();
    });
    assert_eq!(text.matches("blocked by").count(), 10);
    assert!(text.contains("and 9990 more"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_list_cannot_be_drawn_as_dot() {
    let runner = Runner::new(World::new());
    let ran = runner.run("list -o dot").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert_eq!(runner.fake.world.lock().unwrap().queries, 0);
}

#[tokio::test]
async fn list_causes_shows_state_steps_kind_status_type_and_class() {
    let mut world = World::new();
    world.causes = vec![CauseGroup {
        cause: Cause {
            state: StepState::Stuck,
            kind: KindName::new("port"),
            class: Some(ErrorClass::Fatal),
            status: Some(403),
            error_type: Some("PolicyNotAuthorized".into()),
        },
        steps: 500,
        since: chrono::DateTime::UNIX_EPOCH,
        message: "rule:delete_port is disallowed".into(),
    }];
    let ran = run(world, "list causes").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let row: Vec<&str> = ran.out.lines().nth(1).unwrap().split_whitespace().collect();
    let shown = [
        "stuck",
        "500",
        "port",
        "403",
        "PolicyNotAuthorized",
        "fatal",
    ];
    assert_eq!(row[..6], shown, "{}", ran.out);
}

#[tokio::test]
async fn list_causes_asks_for_the_chosen_sites_only() {
    let queried_sites = |line: &str| {
        let world = World::new();
        let last_sites = world.causes_sites.clone();
        let line = format!("list causes {line}");
        async move {
            let ran = run(world, &line).await;
            assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
            let sites = last_sites.lock().unwrap().clone();
            sites.iter().map(ToString::to_string).collect::<Vec<_>>()
        }
    };
    assert_eq!(queried_sites("").await, Vec::<String>::new());
    assert_eq!(queried_sites("--cloud lab").await, ["lab/one"]);
    assert_eq!(queried_sites("--region two").await, ["prod/two"]);
    let ran = run(World::new(), "list causes --cloud lba").await;
    assert_eq!(ran.exit, Exit::Usage);
}

#[tokio::test]
async fn list_gates_shows_the_counts_of_their_requests() {
    let world = || {
        let mut world = World::new();
        world.gates = vec![GateStatus {
            listen: "127.0.0.1:9696".into(),
            source: "local".into(),
            site: Site::region("prod", "RegionOne"),
            service: "network".into(),
            traffic: GateTraffic {
                requests: 70,
                hidden: 5,
                refused: 3,
                ..GateTraffic::default()
            },
        }];
        world
    };
    let ran = run(world(), "list gates").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let cells: Vec<Vec<&str>> = ran
        .out
        .lines()
        .map(|it| it.split_whitespace().collect())
        .collect();
    let shown = [
        "127.0.0.1:9696",
        "local",
        "network",
        "prod/RegionOne",
        "70",
        "5",
        "0",
        "3",
        "0",
        "0",
    ];
    assert_eq!(cells[1], shown, "{}", ran.out);
    let ran = run(world(), "list gates -o json").await;
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&rows[0]["requests"], &rows[0]["hidden"]),
        (&json!(70), &json!(5))
    );
    let ran = run(world(), "list gates --cloud lab -o json").await;
    assert_eq!(ran.out.trim(), "[]");
}

#[tokio::test]
async fn g12_list_deployments_shows_the_watches_and_the_pending_clearances() {
    let world = || {
        let mut world = World::new();
        world.deployments = deployments();
        world
    };
    let ran = run(world(), "list deployments").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let expected = "\
NAME  SERVICE/REGION  WE WATCH                IT WATCHES                                               CLEARANCES  REASON
d0-1  s0/r1           no                      since 2026-02-28T12:00:00Z, last contact 42s ago, lag 2  3           it does not answer
d1-1  s1/r1           stale, answered 2h ago  no                                                       -           connection refused
";
    assert_eq!(ran.out, expected);
    let ran = run(world(), "list deployments -o json").await;
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(rows[0]["importer"]["awaited"], 3);
    assert_eq!(rows[1]["watch"]["fresh"], false);
    let ran = run(world(), "list deployments -o csv").await;
    assert!(
        ran.out.contains("\"stale, answered 2h ago\""),
        "{}",
        ran.out
    );
    for format in ["jsonl", "yaml"] {
        let ran = run(world(), &format!("list deployments -o {format}")).await;
        assert!(ran.out.contains("d1-1"), "{}", ran.out);
    }
    let ran = run(world(), "list deployments --region r1 -o json").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let ran = run(world(), "list deployments --region r2 -o json").await;
    assert_eq!(ran.out.trim(), "[]");
    let ran = run(world(), "list deployments --cloud prod").await;
    assert_eq!(ran.exit, Exit::Usage);
    assert!(ran.err.contains("belong to no cloud"), "{}", ran.err);
}

#[tokio::test]
async fn the_engines_of_a_ledger_are_listed_and_one_is_paused_by_its_name() {
    let world = || {
        let mut world = World::new();
        let noon = "2026-02-28T12:00:00Z".parse().unwrap();
        world.engines = vec![EngineRow {
            name: "admin1".to_owned(),
            role: EngineRole::Leads,
            epoch: 3,
            host: "admin1.example".to_owned(),
            pid: 4_242,
            version: "0.1.0".to_owned(),
            started_at: noon,
            renewed_at: None,
            running: 5,
            has_gates: false,
            behind: 0,
        }];
        world
    };
    let ran = run(world(), "list engines -o wide").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let row: Vec<&str> = ran.out.lines().nth(1).unwrap().split_whitespace().collect();
    let cells = [
        "admin1",
        "leads",
        "5",
        "alone",
        "admin1.example",
        "4242",
        "0.1.0",
        "2026-02-28T12:00:00Z",
        "3",
    ];
    assert_eq!(row, cells, "{}", ran.out);
    let ran = run(world(), "list engines -o json").await;
    assert!(ran.out.contains("\"role\": \"leads\""), "{}", ran.out);

    let ran = run(world(), "pause --engine controller-1 --reason upgrade").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert!(ran.out.contains("controller-1"), "{}", ran.out);

    for list in ["engine", "engines"] {
        for option in ["--cloud prod", "--region one"] {
            let ran = run(world(), &format!("list {list} {option}")).await;
            assert_eq!(ran.exit, Exit::Usage, "{list} {option}: {}", ran.out);
            assert!(ran.err.contains("do not apply"), "{}", ran.err);
        }
    }
}

#[tokio::test]
async fn list_engine_shows_what_each_reconciler_does() {
    let at = |time: &str| {
        format!("2026-02-28T{time}Z")
            .parse::<DateTime<Utc>>()
            .unwrap()
    };
    let waiting = ReconcilerStatus {
        name: Reconciler::Prune,
        running: 0,
        subjects: Vec::new(),
        since: at("12:00:00"),
        last_run_at: None,
        last_run_ms: None,
        last_error: None,
        next_run_at: Some(at("13:00:00")),
    };
    let world = || {
        let mut world = World::new();
        let failure = ReconcilerError {
            message: "port web-9: 409, in use".into(),
            at: at("12:04:00"),
        };
        let busy = ReconcilerStatus {
            name: Reconciler::Dispatch,
            running: 9,
            subjects: vec!["port web-12".into(), "port web-13".into()],
            last_run_at: Some(at("12:05:00")),
            last_run_ms: Some(1_250),
            last_error: Some(failure),
            next_run_at: None,
            ..waiting.clone()
        };
        world.reconcilers = vec![busy, waiting.clone()];
        world
    };
    let ran = run(world(), "list engine -o wide").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let cells = |line: &str| -> Vec<String> {
        line.split("  ")
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let lines: Vec<Vec<String>> = ran.out.lines().map(cells).collect();
    let headings = [
        "RECONCILER",
        "DOING",
        "SINCE",
        "LAST RUN",
        "TOOK",
        "NEXT RUN",
        "LAST ERROR",
        "FAILED",
    ];
    assert_eq!(lines[0], headings, "{}", ran.out);
    let busy = [
        "dispatch",
        "port web-12, port web-13 and 7 more",
        "2026-02-28T12:00:00Z",
        "2026-02-28T12:05:00Z",
        "1.2 s",
    ];
    assert_eq!(lines[1][..5], busy, "{}", ran.out);
    assert!(
        lines[1].contains(&"port web-9: 409, in use".to_owned()),
        "{}",
        ran.out
    );
    assert_eq!(lines[2][..2], ["prune", "waiting"], "{}", ran.out);
    assert!(
        lines[2].contains(&"2026-02-28T13:00:00Z".to_owned()),
        "{}",
        ran.out
    );
    let ran = run(world(), "list engine -o json").await;
    let rows: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(rows[0]["name"], "dispatch");
    assert_eq!(rows[0]["running"], 9);
    assert_eq!(rows[0]["last_error"]["message"], "port web-9: 409, in use");
    assert_eq!(rows[1]["last_run_at"], Value::Null);
    for wrong in ["--older-than 1h", "--cloud prod", "--region two"] {
        let ran = run(world(), &format!("list engine {wrong}")).await;
        assert_eq!(ran.exit, Exit::Usage, "{wrong}");
    }
}

/// The blockers of a step in other deployments are below the step, and their own blockers below them.
#[test]
fn g11_a_tree_shows_the_blockers_in_other_deployments() {
    let there = |name: &str| Site::Deployment { name: name.into() };
    let key = |kind: &str, id: &str, at: &str| ResourceKey {
        site: there(at),
        kind: KindName::new(kind),
        id: id.into(),
    };
    let other_blocker = |kind: &str, id: &str, at: &str| Blocker {
        kind: KindName::new(kind),
        id: id.into(),
        name: String::new(),
        site: there(at),
        owner: String::new(),
        owner_name: String::new(),
        since: None,
        in_plan: true,
        holds: None,
    };
    let mut zone_step = step(1, "zone", StepState::Blocked, &[2]);
    zone_step.blockers = vec![
        Blocker {
            holds: Some(key("c", "c1", "d0-1").into()),
            in_plan: false,
            ..other_blocker("d", "d1", "d0-3")
        },
        other_blocker("deployment", "d0-2", "d0-2"),
        other_blocker("c", "c1", "d0-1"),
    ];
    zone_step.last_error = Some(StepError {
        class: ErrorClass::Blocked,
        status: None,
        kind: "AwaitingImporters".into(),
        message: "deployment d0-1 still has c c1".into(),
        request_id: String::new(),
        at: start(),
    });
    let steps = [zone_step, step(2, "record", StepState::Gone, &[])];
    let text = printed(Format::Table, Style::default(), |to| {
        write_tree(to, &nest(&steps)).unwrap();
    });
    let expected = "\
delete zone zone1 (zone-1) [blocked] waits for the clearance of d0-1, d0-2
└─ delete record record2 (record-2) [gone]
◂─ blocked by pending clearance of deployment d0-2
◂─ blocked by c c1 at d0-1 (deleted too)
   ◂─ blocked by d d1 at d0-3 (not being deleted)
";
    assert_eq!(text, expected);
}
