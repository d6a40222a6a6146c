//! Lists of resources: their order.

use gone::domain::model::Resource;
use serde_json::json;

use super::fake::{Desk, World, resource};

fn desk(networks: &[(&str, &str)]) -> Desk {
    let mut world = World::busy();
    let rows = (1..).zip(networks).map(|(n, (name, status))| {
        let mut row: Resource = resource("network", n, name);
        row.attributes["status"] = json!(status);
        row
    });
    world.listings[0].rows = rows.collect();
    let mut desk = Desk::new(world, (80, 24));
    desk.press(":network enter");
    desk
}

fn names(desk: &Desk, all: &[&str]) -> Vec<String> {
    let text = desk.text();
    let rows = text
        .lines()
        .filter(|line| line.contains("ACTIVE") || line.contains("DOWN"));
    let words = rows.map(|row| {
        row.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    words
        .filter_map(|words| words.into_iter().find(|word| all.contains(&word.as_str())))
        .collect()
}

#[test]
fn rows_are_sorted_by_column_and_the_cursor_stays_on_its_row() {
    let all = ["web", "Archive", "10", "9"];
    let mut desk = desk(&[
        ("web", "DOWN"),
        ("Archive", "ACTIVE"),
        ("10", "DOWN"),
        ("9", "ACTIVE"),
    ]);
    let on = |desk: &Desk, name: &str| {
        let text = desk.text();
        let row = text
            .lines()
            .find(|line| line.starts_with('>'))
            .unwrap()
            .to_owned();
        assert!(row.contains(name), "{text}");
    };
    on(&desk, "web");
    desk.press("s");
    assert!(desk.text().contains("NAME▲"), "{}", desk.text());
    assert_eq!(names(&desk, &all), ["9", "10", "Archive", "web"]);
    on(&desk, "web");
    desk.press("S");
    assert!(desk.text().contains("NAME▼"), "{}", desk.text());
    assert_eq!(names(&desk, &all), ["web", "Archive", "10", "9"]);
    // A later column, in the direction that was chosen; equal ones the other way round, too.
    desk.press("s s");
    assert!(desk.text().contains("STATUS▼"), "{}", desk.text());
    assert_eq!(names(&desk, &all), ["10", "web", "9", "Archive"]);
    on(&desk, "web");
    // A refresh keeps the order.
    desk.press("ctrl-r");
    assert_eq!(names(&desk, &all), ["10", "web", "9", "Archive"]);
    for _ in 0..8 {
        desk.press("s");
        if !desk.text().contains(['▲', '▼']) {
            assert_eq!(names(&desk, &all), all);
            return;
        }
    }
    panic!("never as listed again:\n{}", desk.text());
}
