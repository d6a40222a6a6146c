//! The unix socket: private unless other uids are served, bound again when its file is removed, and aware of the uid
//! of each connection.

use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::caller::Admission;
use crate::system::listener::Accept;
use crate::system::private;

/// The reasons why the socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("another engine serves {0}; attach to it, or choose another socket with --socket")]
    InUse(PathBuf),
    #[error("{0} exists and is not a socket; move it away, or choose another path with --socket")]
    NotASocket(PathBuf),
    #[error("other users can replace files in {0}; choose a private folder for the socket")]
    OpenFolder(PathBuf),
    #[error("cannot serve the socket {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// A listener that binds its file again when the file was removed, for example by a cleaner of temporary folders, so
/// that the engine stays reachable.
#[derive(Debug)]
pub(super) struct SocketListener {
    path: PathBuf,
    admission: Arc<Admission>,
    listener: UnixListener,
    /// The device and the inode of the file that leads to the listener.
    file: (u64, u64),
    check: Interval,
}

impl SocketListener {
    pub(super) async fn bind(
        path: PathBuf,
        admission: Arc<Admission>,
        check_every: Duration,
    ) -> Result<Self, ServeError> {
        let (listener, file) = bind(&path, admission.has_others()).await?;
        let mut check = interval(check_every);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            path,
            admission,
            listener,
            file,
            check,
        })
    }

    async fn rebind_if_vanished(&mut self) {
        if self.owns_file() {
            return;
        }
        match bind(&self.path, self.admission.has_others()).await {
            Ok(bound) => {
                tracing::warn!(socket = %self.path.display(), "the socket had vanished and is bound again");
                (self.listener, self.file) = bound;
            }
            Err(error) => {
                tracing::warn!(%error, "the socket has vanished and cannot be bound again yet");
            }
        }
    }

    fn owns_file(&self) -> bool {
        file_at(&self.path).is_ok_and(|file| file == self.file)
    }
}

impl Accept for SocketListener {
    type Stream = UnixStream;
    /// The uid at the other end of a connection.
    type Client = u32;

    async fn accept(&mut self) -> io::Result<(UnixStream, u32)> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted?;
                    let uid = stream.peer_cred()?.uid();
                    match self.admission.serves(uid) {
                        true => return Ok((stream, uid)),
                        false => refuse(&stream, uid),
                    }
                }
                _ = self.check.tick() => self.rebind_if_vanished().await,
            }
        }
    }
}

/// Closes the connection of a uid that is not served, so that it takes no connection from others (P12). The reason is
/// sent first, if it can be written at once.
fn refuse(stream: &UnixStream, uid: u32) {
    let problem = super::caller::not_served(uid).document().to_string();
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{problem}",
        problem.len()
    );
    // If the answer cannot be written at once, the client sees only the end of the connection.
    let _ = stream.try_write(answer.as_bytes());
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if self.owns_file() {
            // Best effort: a file left behind is recognised as stale by the next engine.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds the path. If the socket is `shared`, uids other than our own and root may connect; [`Admission`] decides by
/// the uid. Returns the listener, and the device and the inode of its file.
async fn bind(path: &Path, shared: bool) -> Result<(UnixListener, (u64, u64)), ServeError> {
    let failed = failed(path);
    make_folder(path, shared)?;
    remove_stale(path).await?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    let mode = if shared { 0o666 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok((listener, file_at(path).map_err(failed)?))
}

/// Returns the device and the inode of the file at this path.
fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> ServeError + Copy {
    move |source| ServeError::Io {
        path: path.to_path_buf(),
        source,
    }
}

/// Creates a missing folder with private rights. If the socket is `shared`, lets others pass through a folder of our
/// own. Refuses a folder in which others could put a socket of their own in place of ours.
fn make_folder(socket: &Path, shared: bool) -> Result<(), ServeError> {
    let folder = socket.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let failed = failed(socket);
    if !folder.exists() {
        let mode = if shared { 0o711 } else { 0o700 };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(folder)
            .map_err(failed)?;
    }
    if shared {
        let_others_through(folder).map_err(failed)?;
    }
    let mode = fs::metadata(folder).map_err(failed)?.mode();
    let (others_write, sticky) = (mode & 0o022 != 0, mode & 0o1000 != 0);
    if others_write && !sticky {
        return Err(ServeError::OpenFolder(folder.to_path_buf()));
    }
    // Others must not be able to replace a folder above this one either.
    private::check_way(socket, private::Trusted::us()).map_err(failed)
}

/// Lets others pass through our own private folder to the socket; the other files in it keep their mode.
/// Leaves a folder of another user as it is.
fn let_others_through(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    let mode = found.mode() & 0o7777;
    if found.uid() == rustix::process::geteuid().as_raw() && mode & 0o011 != 0o011 {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o011))?;
    }
    Ok(())
}

/// Removes the file of a socket that nobody listens on: an engine that was killed leaves one.
async fn remove_stale(path: &Path) -> Result<(), ServeError> {
    let failed = failed(path);
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
        // Connected, or an error such as a full backlog: somebody may listen.
        Ok(_) | Err(_) => Err(ServeError::InUse(path.to_path_buf())),
    }
}
