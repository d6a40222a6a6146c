//! The limit of files and connections that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of open files to allow for in addition to the connections of gates: the ledger, logs, the clouds' own
/// connections, verbs, and consoles and programs at the API's socket.
pub const OTHER_FILES: u64 = 768;

/// Raises the limit as far as this user may, and returns the limit that then applies. None means that there is no
/// limit.
pub fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files was not raised");
            limit.current
        }
    }
}
