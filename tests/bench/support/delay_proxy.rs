//! A proxy in front of a server's socket that delays everything that is sent, in both directions.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes that are read and delayed as one piece.
const READ_MAX: usize = 64 << 10;

/// Listens on a socket, and forwards each connection to another socket. Its threads end with the process.
pub(crate) fn start(listen: &Path, to: &Path, delay: Duration) {
    let listener = UnixListener::bind(listen).unwrap();
    let to = to.to_owned();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), UnixStream::connect(&to).unwrap());
            for (from, to) in [(&client, &server), (&server, &client)] {
                forward(from.try_clone().unwrap(), to.try_clone().unwrap(), delay);
            }
        }
    });
}

/// Forwards the bytes of one direction.
fn forward(mut from: UnixStream, mut to: UnixStream, delay: Duration) {
    let (sender, receiver) = mpsc::sync_channel::<(Instant, Vec<u8>)>(1_000);
    thread::spawn(move || {
        let mut bytes = vec![0; READ_MAX];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            let sent = (Instant::now() + delay, bytes[..length].to_vec());
            if sender.send(sent).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, bytes) in receiver {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}
