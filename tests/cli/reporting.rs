//! `gone report`: as text, as JSON and CSV, and as a web page in which no text from a cloud becomes active.

use std::path::Path;
use std::process::Command;

use chrono::TimeDelta;
use gone::domain::gantt::{Gantt, GanttCell, GanttRow, Last, WaitedFor};
use gone::domain::model::*;
use gone::frontends::cli::Exit;
use scraper::{Html, Selector};
use serde_json::{Value, json};

use crate::fake::*;

/// A name that a cloud may return.
const HOSTILE: &str =
    "\"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp;\u{202e}gpj\u{0}\u{1b}[31m";

fn event(seq: i64, step_id: Option<i64>, kind: EventKind, message: &str, data: Value) -> Event {
    Event {
        seq,
        at: start() + TimeDelta::seconds(seq),
        deletion_id: Some(DELETION.into()),
        step_id,
        kind,
        message: message.to_owned(),
        data,
    }
}

fn chart(name: &str) -> Gantt {
    let cell = |column, sent, refused, ended| GanttCell {
        column,
        sent,
        refused,
        ended,
    };
    Gantt {
        from: start(),
        until: start() + TimeDelta::minutes(10),
        columns: 40,
        rows: vec![
            GanttRow {
                site: Site::region("prod", "one"),
                kind: KindName::new("port"),
                action: Action::Delete,
                steps: 2,
                ended: 1,
                cells: vec![cell(2, 1, 0, 0), cell(4, 0, 1, 0), cell(9, 1, 0, 1)],
                last: Last {
                    name: name.to_owned(),
                    ended_at: None,
                    waited_for: None,
                },
            },
            GanttRow {
                site: Site::region("prod", "one"),
                kind: KindName::new("network"),
                action: Action::Delete,
                steps: 1,
                ended: 0,
                cells: Vec::new(),
                last: Last {
                    name: "web".to_owned(),
                    ended_at: None,
                    waited_for: Some(WaitedFor {
                        kind: KindName::new("port"),
                        name: name.to_owned(),
                        ended_at: None,
                    }),
                },
            },
        ],
    }
}

/// A deletion with one port that is gone, one that is stuck, one that was abandoned, and a network that waits.
/// `name` is in the texts that come from a cloud or a person.
fn world(name: &str) -> World {
    let mut world = World::new();
    let mut stuck = step(7, "port", StepState::Stuck, &[]);
    stuck.resource.name = name.to_owned();
    stuck.blocked_since = Some(start() + TimeDelta::seconds(20));
    stuck.blockers = vec![Blocker {
        name: name.to_owned(),
        owner_name: name.to_owned(),
        ..blocker()
    }];
    stuck.last_error = Some(StepError {
        message: format!("{name} is in use"),
        ..error(ErrorClass::Blocked)
    });
    let mut gone = step(6, "port", StepState::Gone, &[]);
    gone.resource.name = format!("{name}-2");
    let mut abandoned = step(8, "port", StepState::Purged, &[]);
    abandoned.last_error = stuck.last_error.clone();
    let network = step(9, "network", StepState::Waiting, &[6, 7, 8]);
    world.steps = vec![gone, stuck, abandoned, network];
    let mut deletion = deletion(DeletionState::Stuck);
    deletion.reason = format!("ticket 4711, {name}");
    deletion.requested_by.name = name.to_owned();
    deletion.targets[0].name = name.to_owned();
    deletion.note = format!("waits for {name}");
    deletion.plan_hash = Some("c0ffee".to_owned());
    world.deletions = [deletion].into();
    let mut frozen = plan();
    frozen.endpoints = [(
        "prod/one".to_owned(),
        "https://network.example.org:9696".to_owned(),
    )]
    .into();
    frozen.identities = [(
        "prod/one".to_owned(),
        Identity {
            user_id: "u-53cr37".to_owned(),
            project_id: "p-53cr37".to_owned(),
            roles: vec!["admin".to_owned()],
        },
    )]
    .into();
    frozen.unset[0].name = name.to_owned();
    frozen.left = vec![Left {
        resource: target("security_group", "sg-1", name),
        project_id: "demo".to_owned(),
        reason: format!("Neutron makes {name} anew"),
    }];
    frozen.warnings = vec![format!("trunk {name} is enabled first")];
    world.frozen = Some(frozen);
    world.chart = Some(chart(name));
    let answer = format!("409 PortInUse: {name}");
    world.events = vec![
        event(
            1,
            None,
            EventKind::DeletionAccepted,
            "deletion deadbeef accepted",
            json!({}),
        ),
        event(
            2,
            Some(6),
            EventKind::Attempt,
            "accepted: 204",
            json!({"state": "verifying", "status": 204}),
        ),
        event(
            3,
            Some(7),
            EventKind::Attempt,
            &answer,
            json!({"state": "blocked", "status": 409, "request_id": "req-9", "error": {"message": name}}),
        ),
        event(
            5,
            Some(6),
            EventKind::StepState,
            "confirmed gone: port",
            json!({"state": "gone"}),
        ),
        event(
            6,
            None,
            EventKind::NeedsPerson,
            &format!("port {name} is stuck"),
            json!({}),
        ),
    ];
    world
}

#[tokio::test(start_paused = true)]
async fn a_report_dates_a_stuck_deletion_as_stuck_and_not_as_ended() {
    for (state, words) in [
        (DeletionState::Stuck, "stuck since"),
        (DeletionState::Gone, "ended at "),
    ] {
        let mut world = world("vm-1");
        let finished = Deletion {
            state,
            finished_at: Some(start() + TimeDelta::hours(1)),
            ..world.deletions[0].clone()
        };
        world.deletions = [finished].into();
        let ran = run(world, "report deadbeef").await;
        assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
        let dated = ran.out.lines().filter(|line| line.contains(", after 1h"));
        let dated: Vec<&str> = dated.collect();
        assert!(dated.len() == 1 && dated[0].starts_with(words), "{dated:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_shows_the_request_each_resource_and_what_stays_with_reasons() {
    let ran = run(world("vm-1"), "report deadbeef").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    insta::assert_snapshot!("report", ran.out);
    for words in [
        "asked for by   vm-1, by the command line",
        "ticket 4711",
        "2026-03-01T12:00:05Z",
        "a person abandoned it",
        "req-9",
        "Neutron makes vm-1 anew",
        "it only loses its reference",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
}

#[tokio::test(start_paused = true)]
async fn every_cell_of_the_html_report_is_in_the_text_report() {
    let ran = run(world("vm-1"), "report deadbeef --html -").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    insta::assert_snapshot!("report_html", ran.out);
    let text = run(world("vm-1"), "report deadbeef -o wide").await.out;
    let page = Html::parse_document(&ran.out);
    assert!(page.errors.is_empty(), "{:?}", page.errors);
    let cells = Selector::parse("section:not(:has(.chart)) td").unwrap();
    for cell in page.select(&cells) {
        let cell: String = cell.text().collect();
        assert!(text.contains(&cell), "{cell:?} is not in\n{text}");
    }
    let bars = Selector::parse("table.chart svg").unwrap();
    assert_eq!(page.select(&bars).count(), 2);
}

/// Asserts that the page has only elements and attributes that show text or drawings, and none that runs, sends or
/// loads anything.
fn assert_page_is_passive(page: &Html) {
    let known = [
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "section", "span",
        "table", "thead", "tbody", "tr", "th", "td", "svg", "rect",
    ];
    for element in page
        .tree
        .nodes()
        .filter_map(|node| node.value().as_element())
    {
        let name = element.name();
        assert!(known.contains(&name), "<{name}>");
        for (attribute, value) in element.attrs() {
            assert!(!attribute.starts_with("on"), "<{name} {attribute}>");
            let refers = [
                "href",
                "src",
                "xlink:href",
                "action",
                "style",
                "srcset",
                "background",
            ];
            assert!(
                !refers.contains(&attribute),
                "<{name} {attribute}={value:?}>"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_names_stay_text_in_the_html_report_and_nothing_is_loaded() {
    let ran = run(world(HOSTILE), "report deadbeef --html -").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let page = Html::parse_document(&ran.out);
    assert_page_is_passive(&page);
    let style = Selector::parse("style").unwrap();
    let style: String = page.select(&style).flat_map(|it| it.text()).collect();
    assert!(
        !style.contains("url(") && !style.contains("@import") && !style.contains('<'),
        "{style}"
    );
    // The policy forbids scripts and requests, which the escaping already prevents.
    let policy = Selector::parse("meta[http-equiv='Content-Security-Policy']").unwrap();
    let policy = page
        .select(&policy)
        .next()
        .unwrap()
        .attr("content")
        .unwrap()
        .to_owned();
    assert_eq!(policy, "default-src 'none'; style-src 'unsafe-inline'");
    // The name is shown as text, and its characters that hide or reorder text are shown as escapes.
    let all: String = page.root_element().text().collect();
    assert!(all.contains("<script>alert(1)</script>"), "{all}");
    assert!(all.contains("\\u{202e}gpj\\u{0}\\u{1b}[31m"), "{all}");
    let live = |c: char| gone::domain::text::is_hostile(c) && c != '\n';
    assert!(!ran.out.chars().any(live));
    let title = Selector::parse("title").unwrap();
    let title: String = page.select(&title).flat_map(|it| it.text()).collect();
    assert!(title.contains("<script>"), "{title}");
}

#[tokio::test(start_paused = true)]
async fn a_report_has_no_endpoint_and_no_identity() {
    for line in [
        "report deadbeef",
        "report deadbeef --html -",
        "report deadbeef -o json",
    ] {
        let ran = run(world("vm-1"), line).await;
        for secret in ["https://", "53cr37", "example.org"] {
            assert!(!ran.out.contains(secret), "{line}: {secret}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n10_a_report_in_json_has_the_status_of_each_resource() {
    let ran = run(world("vm-1"), "report deadbeef -o json").await;
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    let lines = shown["data"].as_array().unwrap();
    let status = |id: &str| {
        let line = lines.iter().find(|line| line["resource"]["id"] == id);
        line.map(|line| line["status"].clone())
    };
    assert_eq!(status("port-6"), Some(json!(204)));
    assert_eq!(status("port-7"), Some(json!(409)));
    assert_eq!(status("network-9"), Some(json!(202)));
    assert_eq!(status("sg-1"), Some(json!(424)));
    let csv = run(world("vm-1"), "report deadbeef -o csv").await.out;
    assert_eq!(csv.lines().count(), 5, "{csv}");
}

#[tokio::test(start_paused = true)]
async fn an_html_report_file_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let ran = run(
        world("vm-1"),
        &format!("report deadbeef --html {}", file.display()),
    )
    .await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    assert!(ran.out.is_empty(), "{}", ran.out);
    assert!(ran.err.contains("The report is in"), "{}", ran.err);
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ran = run(world("vm-1"), "report deadbeef --html /nowhere/report.html").await;
    assert_eq!(ran.exit, Exit::Usage, "{}", ran.err);
    assert!(
        ran.err.contains("write the report to /nowhere"),
        "{}",
        ran.err
    );
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_refused_deletion_names_the_reasons() {
    let mut world = World::new();
    let mut refused = deletion(DeletionState::Refused);
    refused.counts = Counts::default();
    refused.refused = vec![refusal()];
    world.deletions = [refused].into();
    world.chart = Some(Gantt {
        rows: Vec::new(),
        ..chart("")
    });
    let ran = run(world, "report deadbeef").await;
    assert!(
        ran.out.contains("Nothing was sent, for these reasons."),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("203.0.113.9"), "{}", ran.out);
    assert!(!ran.out.contains("Each resource"), "{}", ran.out);
}

#[tokio::test(start_paused = true)]
async fn a_long_section_of_the_html_report_counts_the_rows_it_leaves_out() {
    let mut world = world("vm-1");
    world.steps = (1..=1_500)
        .map(|id| step(id, "port", StepState::Gone, &[]))
        .collect();
    let ran = run(world, "report deadbeef --html -").await;
    let page = Html::parse_document(&ran.out);
    let rows = Selector::parse("td.gone").unwrap();
    assert_eq!(page.select(&rows).count(), 1_000);
    assert!(ran.out.contains("and 500 more"));
}

/// Chromium shows the same text as the written page, and prints the page on A4 in landscape.
#[tokio::test(start_paused = true)]
#[ignore = "needs Chromium"]
async fn browser_the_html_report_opens_prints_on_a4_and_keeps_hostile_names_text() {
    let ran = run(world(HOSTILE), "report deadbeef --html -").await;
    assert_eq!(ran.exit, Exit::Done, "{}", ran.err);
    let folder = tempfile::tempdir().unwrap();
    let (page, paper) = (folder.path().join("r.html"), folder.path().join("r.pdf"));
    std::fs::write(&page, &ran.out).unwrap();

    let (shown, log) = browse(folder.path(), &["--dump-dom"], &page);
    let shown = Html::parse_document(&shown);
    assert_page_is_passive(&shown);
    let texts = |page: &Html| page.root_element().text().collect::<String>();
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let written = Html::parse_document(&ran.out);
    assert_eq!(words(texts(&shown)), words(texts(&written)));
    // Chromium logs a breach of the policy, and the output of a script, in lines with `CONSOLE`.
    assert!(!log.contains("CONSOLE"), "{log}");

    let print = format!("--print-to-pdf={}", paper.display());
    browse(folder.path(), &[&print], &page);
    let printed = std::fs::read(&paper).unwrap();
    let printed = String::from_utf8_lossy(&printed);
    let sheets: Vec<[i64; 2]> = printed
        .split("/MediaBox [0 0 ")
        .skip(1)
        .map(|rest| {
            let size = rest.split_once(']').unwrap().0;
            let mut sides = size.split(' ').map(|side| side.parse::<f64>().unwrap());
            [(); 2].map(|()| sides.next().unwrap().round() as i64)
        })
        .collect();
    assert!(!sheets.is_empty());
    // 297 by 210 mm, in points.
    assert!(
        sheets.iter().all(|sheet| *sheet == [842, 595]),
        "{sheets:?}"
    );
}

/// Runs Chromium on a page. Returns its standard output and its standard error.
fn browse(folder: &Path, options: &[&str], page: &Path) -> (String, String) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut programs = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .filter(|program| program.exists());
    let program = programs
        .next()
        .expect("this test needs Chromium: apt-get install --no-install-recommends chromium");
    let mut chromium = Command::new(program);
    chromium.args(["--headless=new", "--disable-gpu", "--disable-dev-shm-usage"]);
    chromium.arg("--enable-logging=stderr");
    chromium.arg(format!(
        "--user-data-dir={}",
        folder.join("profile").display()
    ));
    if rustix::process::geteuid().is_root() {
        chromium.arg("--no-sandbox");
    }
    let page = format!("file://{}", page.display());
    let ran = chromium.args(options).arg(page).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let log = text(ran.stderr);
    assert!(ran.status.success(), "{log}");
    (text(ran.stdout), log)
}
