//! The paths of the settings folder, the state folder and the socket; and the person who typed the command.
//!
//! The process's surroundings are read once, into [`Surroundings`]; everything else here is computed from them.

use std::path::{Path, PathBuf};

use crate::domain::model::{Actor, Origin};

/// The system service's socket, if systemd gives the service a runtime folder.
const SYSTEM_SOCKET: &str = "/run/gone/gone.sock";

/// The surroundings of the process, as values. They contain no secret: the cloud port reads the `OS_*` variables
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`
    pub config_home: Option<PathBuf>,
    /// `$XDG_STATE_HOME`
    pub state_home: Option<PathBuf>,
    /// `$GONE_SOCKET`
    pub socket: Option<PathBuf>,
    /// `$RUNTIME_DIRECTORY`, set by systemd for the service.
    pub runtime_folder: Option<PathBuf>,
    /// `$USER`
    pub user: Option<String>,
    /// `$SUDO_USER`: the user who called `sudo`.
    pub sudo_user: Option<String>,
    /// `$SSH_CONNECTION`: the client's address comes first.
    pub ssh_connection: Option<String>,
    pub uid: u32,
    /// Whether `$NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `$PGPASSFILE`, or `~/.pgpass` if it exists: passwords of database servers, as PostgreSQL's programs use them.
    pub passfile: Option<PathBuf>,
    /// `$TERM`
    pub term: Option<String>,
    /// `$COLUMNS`: the width of the screen in characters, if a person set it.
    pub columns: Option<usize>,
    /// The first of `$LC_ALL`, `$LC_CTYPE` and `$LANG` that is set.
    pub locale: Option<String>,
}

impl Surroundings {
    pub fn of_process() -> Self {
        // The XDG rule: a relative path is ignored, and an empty variable counts as unset.
        let absolute = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            home: absolute("HOME"),
            config_home: absolute("XDG_CONFIG_HOME"),
            state_home: absolute("XDG_STATE_HOME"),
            socket: text("GONE_SOCKET").map(PathBuf::from),
            runtime_folder: absolute("RUNTIME_DIRECTORY"),
            user: text("USER"),
            sudo_user: text("SUDO_USER"),
            ssh_connection: text("SSH_CONNECTION"),
            uid: rustix::process::getuid().as_raw(),
            no_color: text("NO_COLOR").is_some(),
            passfile: absolute("PGPASSFILE").or_else(|| {
                let usual = absolute("HOME")?.join(".pgpass");
                usual.exists().then_some(usual)
            }),
            term: text("TERM"),
            columns: text("COLUMNS").and_then(|columns| columns.parse().ok()),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text),
        }
    }

    /// Returns `$XDG_CONFIG_HOME/gone`, by default `~/.config/gone`; none if there is neither the variable nor a home
    /// folder.
    pub fn config_folder(&self) -> Option<PathBuf> {
        self.folder(self.config_home.as_deref(), ".config")
    }

    /// Returns `$XDG_STATE_HOME/gone`, by default `~/.local/state/gone`; none if there is neither the variable nor a
    /// home folder.
    pub fn state_folder(&self) -> Option<PathBuf> {
        self.folder(self.state_home.as_deref(), ".local/state")
    }

    fn folder(&self, chosen: Option<&Path>, usual: &str) -> Option<PathBuf> {
        let base = match (chosen, &self.home) {
            (Some(base), _) => base.to_path_buf(),
            (None, Some(home)) => home.join(usual),
            (None, None) => return None,
        };
        Some(base.join("gone"))
    }

    /// Returns the socket that an engine serves: the option's, else `$GONE_SOCKET`, else the one in the
    /// service's runtime folder, else the one in the state folder.
    pub fn socket_to_serve(&self, option: Option<&Path>) -> Option<PathBuf> {
        self.named_socket(option)
            .or_else(|| Some(self.runtime_folder.as_ref()?.join("gone.sock")))
            .or_else(|| Some(self.state_folder()?.join("gone.sock")))
    }

    /// Returns the socket to which a client connects: the option's, else `$GONE_SOCKET`, else the system service's if
    /// `exists` finds it, else the one in the state folder.
    pub fn socket_to_reach(
        &self,
        option: Option<&Path>,
        exists: impl Fn(&Path) -> bool,
    ) -> Option<PathBuf> {
        let system = Path::new(SYSTEM_SOCKET);
        self.named_socket(option)
            .or_else(|| exists(system).then(|| system.to_path_buf()))
            .or_else(|| Some(self.state_folder()?.join("gone.sock")))
    }

    fn named_socket(&self, option: Option<&Path>) -> Option<PathBuf> {
        option.map(Path::to_path_buf).or(self.socket.clone())
    }

    /// Returns the person who typed the command: the user behind `sudo`, else `$USER`, else the user id, with the
    /// address of the person's SSH connection (P6).
    pub fn actor(&self, origin: Origin) -> Actor {
        let user = self.sudo_user.as_deref().or(self.user.as_deref());
        let named = || match self.uid {
            0 => "root".to_owned(),
            uid => format!("uid {uid}"),
        };
        let user = user.map_or_else(named, str::to_owned);
        let client = self
            .ssh_connection
            .as_deref()
            .and_then(|connection| connection.split_whitespace().next());
        let name = match client {
            Some(address) => format!("{user}@{address}"),
            None => user,
        };
        Actor { name, origin }
    }
}
