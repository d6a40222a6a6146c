//! The machine on which this process runs.

/// Returns the machine's host name.
pub fn host() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().into_owned()
}
