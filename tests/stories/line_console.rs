//! The console in lines, for screen readers and for terminals without cursor control.

use super::home::{Home, until};
use super::session::Session;

/// A user of the console in lines, who types lines and reads the output.
struct Reader {
    session: Session,
    /// Number of bytes of the output that were read.
    read: usize,
}

impl Reader {
    /// Types a line, and reads on until the new output contains all these texts.
    fn type_line(&mut self, line: &str, expected: &[&str]) -> String {
        self.session.press(&format!("{line}\n"));
        self.read_until(expected)
    }

    fn read_until(&mut self, expected: &[&str]) -> String {
        let new = || String::from_utf8(self.session.raw()[self.read..].to_vec()).unwrap();
        let read = until(&format!("{expected:?}"), new, || {
            let text = new();
            let ends = text.ends_with("\n");
            let all = expected.iter().all(|part| text.contains(part));
            (ends && all).then_some(text)
        });
        self.read += read.len();
        read
    }
}

#[test]
fn the_console_in_lines_finds_plans_confirms_and_deletes_a_network() {
    let mut home = Home::new();
    let cloud = home.serve_cloud("quiet");
    let session = Session::start_with_env(&home, &[], &[("TERM", "dumb")]);
    let mut reader = Reader { session, read: 0 };
    reader.read_until(&["engine in this console", "== home", "keys: ", "q quit"]);
    reader.type_line("delete", &["\"delete\" is not a key"]);
    reader.type_line(
        ":network",
        &["== network 4", "name external, status ACTIVE"],
    );
    reader.type_line(
        "/quiet-net-1",
        &["filter quiet-net-1", ">1. ", "row 1: network quiet-net-1"],
    );
    reader.type_line(
        "D",
        &["== plan: delete network quiet-net-1", "enter confirm"],
    );
    reader.type_line("1", &["row 1: delete network quiet-net-1"]);
    let writes = cloud.writes().len();
    reader.type_line(
        "enter",
        &["Delete network quiet-net-1", "An empty line sends nothing."],
    );
    reader.type_line("", &["nothing was sent", "== plan"]);
    reader.type_line("enter", &["An empty line sends nothing."]);
    reader.type_line("quiet-net", &["That is not it."]);
    assert_eq!(cloud.writes().len(), writes);
    reader.type_line("quiet-net-1", &["accepted as deletion", "== deletion"]);
    // The console announces the end by itself, unless the network was gone before it printed the pane.
    let output = || String::from_utf8(reader.session.raw()).unwrap();
    until("announcement of the end", output, || {
        let text = output();
        let is_announced =
            text.contains("news: nothing is under way, ") || text.contains("+ gone ##");
        is_announced.then_some(())
    });
    reader.type_line("", &["+ gone"]);
    reader.type_line("esc", &["== network"]);
    reader.session.press("q\n");
    reader.session.assert_clean_exit();
    let raw = reader.session.raw();
    assert!(
        raw.is_ascii() && !raw.contains(&0x1b),
        "the output must have no control sequences"
    );
}
