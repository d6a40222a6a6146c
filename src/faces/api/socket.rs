//! The unix socket: private, bound again when its file vanishes, and knowing its peers.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::system::private;

/// Why the socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("another engine serves {0}; attach to it, or choose another socket with --socket")]
    InUse(PathBuf),
    #[error("{0} exists and is no socket; move it away, or choose another with --socket")]
    NotASocket(PathBuf),
    #[error("other users can replace files in {0}; choose a private folder for the socket")]
    OpenFolder(PathBuf),
    #[error("cannot serve the socket {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Who is at the other end, as the kernel vouches for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) uid: u32,
}

impl Connected<IncomingStream<'_, SocketListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, SocketListener>) -> Self {
        *stream.remote_addr()
    }
}

/// A listener that outlives its file: a cleaner of temporary folders must not make the engine
/// unreachable.
#[derive(Debug)]
pub(super) struct SocketListener {
    path: PathBuf,
    /// Others may connect; their uid decides.
    shared: bool,
    bound: Bound,
    check: Interval,
}

impl SocketListener {
    pub(super) async fn bind(
        path: PathBuf,
        shared: bool,
        check_every: Duration,
    ) -> Result<Self, ServeError> {
        let bound = Bound::new(&path, shared).await?;
        let mut check = interval(check_every);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            path,
            shared,
            bound,
            check,
        })
    }

    async fn rebind_if_vanished(&mut self) {
        if self.bound.owns(&self.path) {
            return;
        }
        match Bound::new(&self.path, self.shared).await {
            Ok(bound) => {
                tracing::warn!(socket = %self.path.display(), "the socket had vanished and is bound again");
                self.bound = bound;
            }
            Err(error) => {
                tracing::warn!(%error, "the socket has vanished and cannot be bound again yet");
            }
        }
    }
}

impl Listener for SocketListener {
    type Io = UnixStream;
    type Addr = Peer;

    async fn accept(&mut self) -> (UnixStream, Peer) {
        loop {
            tokio::select! {
                accepted = self.bound.listener.accept() => {
                    let peer = accepted.and_then(|(stream, _)| {
                        let uid = stream.peer_cred()?.uid();
                        Ok((stream, Peer { uid }))
                    });
                    match peer {
                        Ok(peer) => return peer,
                        Err(error) => {
                            tracing::warn!(%error, "cannot accept a connection");
                            // Out of file descriptors, most likely: without a pause this would spin.
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    }
                }
                _ = self.check.tick() => self.rebind_if_vanished().await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer {
            uid: rustix::process::geteuid().as_raw(),
        })
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if self.bound.owns(&self.path) {
            // Best effort: a file left behind is recognised as stale by the next engine.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A listener, and the file that leads to it.
#[derive(Debug)]
struct Bound {
    listener: UnixListener,
    device: u64,
    inode: u64,
}

impl Bound {
    async fn new(path: &Path, shared: bool) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Io {
            path: path.to_path_buf(),
            source,
        };
        make_folder(path, shared)?;
        remove_stale(path).await?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        let mode = if shared { 0o666 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
        let file = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self {
            listener,
            device: file.dev(),
            inode: file.ino(),
        })
    }

    fn owns(&self, path: &Path) -> bool {
        fs::symlink_metadata(path)
            .is_ok_and(|file| (file.dev(), file.ino()) == (self.device, self.inode))
    }
}

/// A missing folder is made private. One that stands is left as it is, unless others could put a
/// socket of their own in the place of ours.
fn make_folder(socket: &Path, shared: bool) -> Result<(), ServeError> {
    let folder = match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |source| ServeError::Io {
        path: socket.to_path_buf(),
        source,
    };
    if !folder.exists() {
        let mode = if shared { 0o711 } else { 0o700 };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(folder)
            .map_err(failed)?;
    }
    let mode = fs::metadata(folder).map_err(failed)?.mode();
    let (others_write, sticky) = (mode & 0o022 != 0, mode & 0o1000 != 0);
    if others_write && !sticky {
        return Err(ServeError::OpenFolder(folder.to_path_buf()));
    }
    // Nor in the place of a folder above it.
    private::check_way(socket, private::Trusted::us()).map_err(failed)
}

/// Removes the file of a socket that nobody listens on: an engine that was killed leaves one.
async fn remove_stale(path: &Path) -> Result<(), ServeError> {
    let failed = |source| ServeError::Io {
        path: path.to_path_buf(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ServeError::NotASocket(path.to_path_buf()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Connected, or a full backlog: somebody listens.
        Ok(_) | Err(_) => Err(ServeError::InUse(path.to_path_buf())),
    }
}
