//! Private files: files of this machine that no other account can change or steal.
//!
//! The adversaries are other accounts of this machine. Two rules protect against them:
//! 1. *Every folder on the way* ([`check_way`]) belongs to root or to this account, and nobody else may
//!    replace files in it. In a folder that everybody may write (`/tmp`, with its sticky bit) only files
//!    of root or of this account are trusted.
//! 2. *A file is opened before it is trusted*: never through a symbolic link, and it must be a regular
//!    file of root or of this account. Nothing is emptied or changed before that.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

/// A longer chain of symbolic links counts as a cycle.
const LINKS_MAX: usize = 40;
const STICKY: u32 = 0o1000;

/// Why a path cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error(
        "{path} belongs to {owner}, who could put other files in place of yours; choose a folder of \
         your own, or run as that user"
    )]
    Owner { path: PathBuf, owner: Uid },
    #[error(
        "other users may replace files in {folder} (mode {mode:03o}): chmod go-w {folder}, or choose \
         a folder of your own"
    )]
    Writable { folder: PathBuf, mode: u32 },
    #[error(
        "other users may enter {folder} (mode {mode:03o}), to which {path} leads: chmod 700 {folder}, or choose \
         another folder"
    )]
    Open {
        path: PathBuf,
        folder: PathBuf,
        mode: u32,
    },
    #[error("{path} is not a regular file")]
    NoFile { path: PathBuf },
    #[error(
        "{path} has another name elsewhere (a hard link), through which others may reach it; remove that name, or choose another file"
    )]
    Linked { path: PathBuf },
    #[error("{path} is not a socket")]
    NoSocket { path: PathBuf },
    #[error(
        "the socket {path} belongs to {owner}, but {listener} listens at it: it may not be an engine of yours, so nothing is sent to it"
    )]
    Listener {
        path: PathBuf,
        listener: Uid,
        owner: Uid,
    },
    #[error("{path} leads through too many symbolic links")]
    Circle { path: PathBuf },
}

/// An account, displayed for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uid(pub u32);

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => f.write_str("root"),
            uid => write!(f, "uid {uid}"),
        }
    }
}

impl Untrusted {
    fn owner(path: &Path, uid: u32) -> Self {
        Self::Owner {
            path: path.to_owned(),
            owner: Uid(uid),
        }
    }
}

impl From<Untrusted> for io::Error {
    fn from(why: Untrusted) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, why)
    }
}

/// Whether the failure is that a path cannot be trusted.
pub fn is_untrusted(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|why| why.is::<Untrusted>())
}

/// The accounts whose files are trusted: root, this account, and at most one more.
#[derive(Clone, Copy, Debug)]
pub struct Trusted {
    us: u32,
    also: Option<u32>,
}

impl Trusted {
    /// Trusts root and the account of this process.
    pub fn us() -> Self {
        Self {
            us: rustix::process::geteuid().as_raw(),
            also: None,
        }
    }

    /// Also trusts this account, for files that are known to belong to it.
    #[must_use]
    pub fn and(self, uid: u32) -> Self {
        Self {
            also: Some(uid),
            ..self
        }
    }

    pub fn is(self, uid: u32) -> bool {
        uid == 0 || uid == self.us || self.also == Some(uid)
    }

    /// Whether an account is trusted in a folder that everybody may write. The additional account is not: it
    /// is the owner of a file that anyone could have put there.
    fn is_where_all_write(self, uid: u32) -> bool {
        uid == 0 || uid == self.us
    }
}

/// Owner, group and mode of a file or folder.
#[derive(Clone, Copy, Debug)]
struct Facts {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Facts {
    fn of(found: &Metadata) -> Self {
        Self {
            uid: found.uid(),
            gid: found.gid(),
            mode: found.mode(),
        }
    }

    /// Whether accounts other than the owner may put files into this folder. A group with the owner's number is
    /// taken to have the owner as its only member, because most distributions create accounts in this way, and
    /// root's group to have only root.
    fn others_write(self) -> bool {
        let group_is_private = self.gid == 0 || self.gid == self.uid;
        self.mode & 0o002 != 0 || (self.mode & 0o020 != 0 && !group_is_private)
    }

    fn is_sticky(self) -> bool {
        self.mode & STICKY != 0
    }
}

/// Checks that only a trusted account can have put the file into this folder.
fn judge(
    (folder, above): (&Path, Facts),
    (path, found): (&Path, Facts),
    trusted: Trusted,
) -> Result<(), Untrusted> {
    if !trusted.is(above.uid) {
        return Err(Untrusted::owner(folder, above.uid));
    }
    let open = above.others_write();
    if open && !above.is_sticky() {
        return Err(Untrusted::Writable {
            folder: folder.to_owned(),
            mode: above.mode & 0o7777,
        });
    }
    let known = match open {
        true => trusted.is_where_all_write(found.uid),
        false => trusted.is(found.uid),
    };
    match known {
        true => Ok(()),
        false => Err(Untrusted::owner(path, found.uid)),
    }
}

/// Checks every folder on the way to this path, and the file at its end if there is one. Symbolic links are
/// followed, and each link is judged like a file in its own folder.
///
/// # Errors
/// [`Untrusted`] (as `PermissionDenied`), or an error if a folder on the way cannot be read.
pub fn check_way(path: &Path, trusted: Trusted) -> io::Result<()> {
    let mut ahead: Vec<OsString> = names(&std::path::absolute(path)?);
    let mut here = PathBuf::from("/");
    let mut above = Facts::of(&fs::metadata(&here)?);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            here.pop();
            above = Facts::of(&fs::symlink_metadata(&here)?);
            continue;
        }
        let next = here.join(&name);
        let found = match fs::symlink_metadata(&next) {
            Ok(found) => found,
            // The file, or a folder on the way to it, does not exist yet. The folder above must permit creating it
            // safely.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let ours = Facts {
                    uid: trusted.us,
                    gid: 0,
                    mode: 0,
                };
                return Ok(judge((&here, above), (&next, ours), trusted)?);
            }
            Err(error) => return Err(error),
        };
        judge((&here, above), (&next, Facts::of(&found)), trusted)?;
        if found.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                let path = path.to_owned();
                return Err(Untrusted::Circle { path }.into());
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                here = PathBuf::from("/");
                above = Facts::of(&fs::metadata(&here)?);
            }
            ahead.extend(names(&target));
            continue;
        }
        here = next;
        above = Facts::of(&found);
    }
    Ok(())
}

/// Returns the names of a path, the last one first, without its root.
fn names(path: &Path) -> Vec<OsString> {
    let mut names: Vec<OsString> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect();
    names.reverse();
    names
}

/// Creates a folder and its missing parents, which only their owner can enter (0700). Removes other users' access
/// to an existing folder of this user.
///
/// # Errors
/// The folder cannot be created, other users could replace files in it, it belongs to someone else, or it is a
/// symbolic link to a folder that other users can enter (a folder elsewhere is not closed unasked).
pub fn folder(path: &Path) -> io::Result<()> {
    let trusted = Trusted::us();
    check_way(path, trusted)?;
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    check_way(path, trusted)?;
    let found = fs::metadata(path)?;
    if found.uid() != trusted.us {
        return Err(Untrusted::owner(path, found.uid()).into());
    }
    if found.mode() & 0o077 == 0 {
        return Ok(());
    }
    if fs::symlink_metadata(path)?.is_symlink() {
        let (folder, mode) = (fs::canonicalize(path)?, found.mode() & 0o7777);
        let path = path.to_owned();
        return Err(Untrusted::Open { path, folder, mode }.into());
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Opens a file of this account for reading and writing, and creates it (0600) if it does not exist. The content of an
/// existing file stays unchanged, but other users lose access to it.
///
/// # Errors
/// The file cannot be opened or created, is a symbolic link, is not a regular file, belongs to someone else, or has
/// another name (a hard link).
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    ours(path, &mut options)
}

/// Opens a file of this account for appending, and creates it (0600) if it does not exist. Other users lose access to
/// an existing file.
///
/// # Errors
/// As for [`open_or_create`].
pub fn append(path: &Path) -> io::Result<File> {
    ours(path, OpenOptions::new().append(true).create(true))
}

fn ours(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.mode(0o600).custom_flags(careful()).open(path);
    let file = file.map_err(|error| explain_link(path, error))?;
    let found = file.metadata()?;
    check_file(path, &found, Trusted::us())?;
    // An attacker may have given a victim's file this second name in a folder of his own.
    if found.nlink() > 1 {
        let path = path.to_owned();
        return Err(Untrusted::Linked { path }.into());
    }
    if found.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Creates a new file (0600), or refuses. An existing file, and the target of a link, stay unchanged.
///
/// # Errors
/// The path exists already, or the file cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.custom_flags(careful()).open(path)
}

/// Writes a file (0600) with this content in one step, in place of an existing one. A link is replaced, never followed.
///
/// # Errors
/// The new file cannot be written or renamed.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = create_new(&beside).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        // A partial file is of no use; the first error tells the reason.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Opens for reading a file that belongs to root, to this account, or to another trusted account.
///
/// # Errors
/// The file cannot be opened, is a symbolic link, is not a regular file, or belongs to an account that is not trusted.
pub fn open(path: &Path, trusted: Trusted) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(careful()).open(path);
    let file = file.map_err(|error| explain_link(path, error))?;
    check_file(path, &file.metadata()?, trusted)?;
    Ok(file)
}

/// Checks that the engine at this socket was started by root, by this account, or by an account to which root
/// has given the folder (`/run/gone`). The listener is checked, and not only the socket's file, because
/// commands go to the process that listens.
///
/// # Errors
/// There is no socket, nobody listens at it, or [`Untrusted`].
pub fn check_socket(socket: &Path) -> io::Result<()> {
    let path = || socket.to_owned();
    let found = fs::metadata(socket)?;
    if !found.file_type().is_socket() {
        return Err(Untrusted::NoSocket { path: path() }.into());
    }
    let trusted = Trusted::us().and(found.uid());
    check_way(socket, trusted)?;
    let stream = UnixStream::connect(socket)?;
    let listener = rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw();
    match trusted.is(listener) {
        true => Ok(()),
        false => Err(Untrusted::Listener {
            path: path(),
            listener: Uid(listener),
            owner: Uid(found.uid()),
        }
        .into()),
    }
}

/// Returns flags with which opening a file follows no link and does not block if the path is a pipe.
fn careful() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

fn check_file(path: &Path, found: &Metadata, trusted: Trusted) -> Result<(), Untrusted> {
    match (found.is_file(), trusted.is(found.uid())) {
        (false, _) => Err(Untrusted::NoFile {
            path: path.to_owned(),
        }),
        (true, false) => Err(Untrusted::owner(path, found.uid())),
        (true, true) => Ok(()),
    }
}

/// Words the error for a path that is a link, since the system says "too many levels of symbolic links".
fn explain_link(path: &Path, error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(rustix::io::Errno::LOOP.raw_os_error()) {
        return error;
    }
    let path = path.display();
    let message = format!("{path} is a symbolic link, which is not followed");
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u32 = 1000;
    const MALLORY: u32 = 1666;

    fn judged(above: (u32, u32), found: u32, also: Option<u32>) -> bool {
        let trusted = Trusted { us: US, also };
        let facts = |uid, mode| Facts { uid, gid: 4, mode };
        let (folder, path) = (Path::new("/f"), Path::new("/f/p"));
        judge(
            (folder, facts(above.0, above.1)),
            (path, facts(found, 0o600)),
            trusted,
        )
        .is_ok()
    }

    #[test]
    fn a_path_that_another_account_could_have_placed_is_not_trusted() {
        for (above, found, is_trusted) in [
            ((0, 0o755), 0, true),
            ((US, 0o700), US, true),
            ((0, 0o755), US, true),
            // A file of another account in a folder of root, and a file of this account in a folder of another
            // account.
            ((0, 0o755), MALLORY, false),
            ((MALLORY, 0o755), US, false),
            // Folders that other accounts may write. With the sticky bit they may not replace files of this account.
            ((0, 0o777), US, false),
            ((US, 0o775), US, false),
            ((0, 0o1777), US, true),
            ((0, 0o1777), 0, true),
            ((0, 0o1777), MALLORY, false),
        ] {
            assert_eq!(judged(above, found, None), is_trusted, "{above:?} {found}");
        }
    }

    #[test]
    fn a_further_account_is_trusted_only_where_no_other_account_can_write() {
        for (above, is_trusted) in [
            ((0, 0o755), true),
            ((MALLORY, 0o755), true),
            ((0, 0o1777), false),
            ((US, 0o777), false),
        ] {
            assert_eq!(
                judged(above, MALLORY, Some(MALLORY)),
                is_trusted,
                "{above:?}"
            );
        }
    }

    #[test]
    fn group_write_permission_counts_as_private_only_for_the_owners_group_and_root() {
        let facts = |uid, gid| Facts {
            uid,
            gid,
            mode: 0o770,
        };
        assert!(!facts(US, US).others_write());
        assert!(!facts(US, 0).others_write());
        assert!(facts(US, 4).others_write());
    }
}
