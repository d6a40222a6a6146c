use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use gone::system::telemetry::{LogFormat, Verbosity, format_for, subscriber};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(format: LogFormat, times: u8, engine: bool) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let verbosity = Verbosity { times, engine };
    let subscriber = subscriber(format, verbosity, move || writer.clone());
    tracing::subscriber::with_default(subscriber, || {
        tracing::warn!(target: "gone::engine", site = "prod/one", "paused");
        tracing::info!(target: "gone::engine", "started");
        tracing::debug!(target: "gone::engine", "claimed");
        tracing::info!(target: "reqwest", "connected");
    });
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn logs_are_text_on_a_terminal_and_json_elsewhere() {
    assert_eq!(format_for(None, true), LogFormat::Text);
    assert_eq!(format_for(None, false), LogFormat::Json);
    assert_eq!(format_for(Some(LogFormat::Text), false), LogFormat::Text);

    let json = logged(LogFormat::Json, 0, true);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["level"], "WARN");
    assert_eq!(first["site"], "prod/one");
    assert_eq!(first["message"], "paused");

    let text = logged(LogFormat::Text, 0, true);
    assert!(text.contains("WARN") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn each_v_logs_more_and_a_verb_logs_less_than_an_engine() {
    let count = |times, engine| logged(LogFormat::Text, times, engine).lines().count();
    assert_eq!(count(0, false), 1);
    assert_eq!(count(1, false), 2);
    assert_eq!(count(0, true), 2);
    assert_eq!(count(2, false), 3);
    assert_eq!(count(3, false), 4);
}
