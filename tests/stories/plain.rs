//! The console by lines, as a screen reader or a terminal that can do nothing else has it.

use super::seat::Seat;
use super::stage::{Stage, until};

/// A person who types lines and reads what comes next.
struct Reader {
    seat: Seat,
    /// How much of the output was read.
    read: usize,
}

impl Reader {
    /// Types a line, and reads on until all of this was said.
    fn say(&mut self, line: &str, heard: &[&str]) -> String {
        self.seat.press(&format!("{line}\n"));
        self.hear(heard)
    }

    fn hear(&mut self, heard: &[&str]) -> String {
        let new = || String::from_utf8(self.seat.raw()[self.read..].to_vec()).unwrap();
        let said = until(&format!("{heard:?}"), new, || {
            let said = new();
            let ends = said.ends_with("\n");
            let all = heard.iter().all(|text| said.contains(text));
            (ends && all).then_some(said)
        });
        self.read += said.len();
        said
    }
}

#[test]
fn by_lines_a_network_is_found_planned_confirmed_and_gone() {
    let mut stage = Stage::new();
    let cloud = stage.serve_cloud("quiet");
    let seat = Seat::take_with(&stage, &[], &[("TERM", "dumb")]);
    let mut reader = Reader { seat, read: 0 };
    reader.hear(&["engine in this console", "== home", "keys: ", "q quit"]);
    reader.say("delete", &["\"delete\" is not a key"]);
    reader.say(
        ":network",
        &["== network 4", "name external, status ACTIVE"],
    );
    reader.say(
        "/quiet-net-1",
        &["filter quiet-net-1", ">1. ", "row 1: network quiet-net-1"],
    );
    reader.say(
        "D",
        &["== plan: delete network quiet-net-1", "enter confirm"],
    );
    reader.say("1", &["row 1: delete network quiet-net-1"]);
    let writes = cloud.writes().len();
    reader.say(
        "enter",
        &["Delete network quiet-net-1", "An empty line sends nothing."],
    );
    reader.say("", &["nothing was sent", "== plan"]);
    reader.say("enter", &["An empty line sends nothing."]);
    reader.say("quiet-net", &["That is not it."]);
    assert_eq!(cloud.writes().len(), writes);
    reader.say("quiet-net-1", &["accepted as deletion", "== deletion"]);
    // Said by itself, unless it was gone before that was printed.
    let heard = || String::from_utf8(reader.seat.raw()).unwrap();
    until("news of the end", heard, || {
        let said = heard();
        let news = said.contains("news: nothing is under way, ") || said.contains("+ gone ##");
        news.then_some(())
    });
    reader.say("", &["+ gone"]);
    reader.say("esc", &["== network"]);
    reader.seat.press("q\n");
    reader.seat.left();
    let raw = reader.seat.raw();
    assert!(
        raw.is_ascii() && !raw.contains(&0x1b),
        "no byte moves a cursor"
    );
}
