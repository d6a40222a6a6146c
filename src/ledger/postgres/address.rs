//! The location of a ledger on a server: `postgres://USER@HOST:PORT/DATABASE?schema=…`.

use std::fmt::{self, Display, Formatter};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use url::form_urlencoded;

use super::failed::{Failed, Sql};
use crate::system::private::{self, Trusted};

/// The schema of a ledger whose URL names none.
const SCHEMA: &str = "gone";
/// The name of our sessions in the server's list of sessions.
const APPLICATION: &str = "gone";
/// After this long without data, the system probes the connection; and if data that was sent is not acknowledged for
/// this long, the connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Why a URL names no ledger. The text never contains a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

/// A schema of a database, and how it is reached. The password is not part of the address: it stays in its file.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// The URL as a person wrote it.
    url: String,
    config: Config,
    pub(super) schema: String,
    pub(super) use_tls: bool,
    /// Whether a pooler gives each transaction a session of its own.
    pub is_pooled: bool,
    /// File with the PEM certificates of the authorities that are trusted; none: the system's.
    pub(super) roots: Option<PathBuf>,
    passfile: Option<PathBuf>,
}

impl Address {
    /// The name of the schema.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Parses a URL. The parameters `schema`, `passfile`, `sslmode`, `sslrootcert` and `pooler` are read here; all
    /// others are those of [`Config`].
    ///
    /// # Errors
    /// The URL is not that of a database, has a password, or has a parameter with a value that is not allowed.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        let unusable = |why: &str| AddressError(why.to_owned());
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = || form_urlencoded::parse(query.as_bytes());
        let authority = base.split_once("://").map_or("", |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        if user.contains(':') || pairs().any(|(key, _)| key == "password") {
            return Err(unusable(
                "it has a password, which other users of this machine could read in the list of \
                 processes: leave it out, and write it into a file that ?passfile=FILE or \
                 $PGPASSFILE names, one line HOST:PORT:DATABASE:USER:PASSWORD",
            ));
        }
        let (mut schema, mut mode, mut pooler) = (SCHEMA.to_owned(), None, None);
        let (mut roots, mut passfile) = (None, None);
        let mut others = form_urlencoded::Serializer::new(String::new());
        for (key, value) in pairs() {
            match &*key {
                "schema" => schema = value.into_owned(),
                "sslmode" => mode = Some(value.into_owned()),
                "pooler" => pooler = Some(value.into_owned()),
                "sslrootcert" => roots = Some(PathBuf::from(&*value)),
                "passfile" => passfile = Some(PathBuf::from(&*value)),
                // As for libpq, the value may list several hosts; each becomes a parameter.
                "host" => {
                    for host in value.split(',') {
                        others.append_pair("host", host);
                    }
                }
                _ => {
                    others.append_pair(&key, &value);
                }
            }
        }
        if schema.is_empty()
            || !schema
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            return Err(unusable(
                "the name of a schema may contain only letters, digits and _",
            ));
        }
        let config = format!("{base}?{}", others.finish()).parse::<Config>();
        let mut config =
            config.map_err(|error| AddressError(Failed::Statement(error).to_string()))?;
        match config.get_hosts().len() {
            0 => return Err(unusable("it names no host")),
            1 => {}
            // A standby among several hosts takes no writes until it is promoted.
            _ => {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
        }
        let is_socket = |host: &Host| matches!(host, Host::Unix(_));
        let is_socket = config.get_hosts().iter().all(is_socket);
        let use_tls = match mode.as_deref() {
            Some("disable") => false,
            None | Some("require" | "verify-ca" | "verify-full") => !is_socket,
            Some(other) => {
                return Err(AddressError(format!(
                    "sslmode={other} might connect without TLS: write sslmode=disable, or leave it out, so that \
                     the server's certificate is verified"
                )));
            }
        };
        let is_pooled = match pooler.as_deref() {
            None | Some("session") => false,
            Some("transaction") => true,
            Some(other) => {
                return Err(AddressError(format!(
                    "pooler={other} is not known: write pooler=transaction if a pooler gives each \
                     transaction a session of the server, and leave it out otherwise"
                )));
            }
        };
        Ok(Self {
            url: url.to_owned(),
            config,
            schema,
            use_tls,
            is_pooled,
            roots,
            passfile,
        })
    }

    /// Sets the password file, unless the URL names one.
    #[must_use]
    pub fn or_passfile(mut self, usual: Option<PathBuf>) -> Self {
        self.passfile = self.passfile.or(usual);
        self
    }

    /// Returns the settings of a connection, with the password that is in its file now.
    pub(super) fn config(&self) -> Sql<Config> {
        let mut config = self.config.clone();
        config
            .application_name(APPLICATION)
            .keepalives_idle(SILENCE_MAX)
            .tcp_user_timeout(SILENCE_MAX)
            .ssl_mode(match self.use_tls {
                true => SslMode::Require,
                false => SslMode::Disable,
            });
        if let Some(password) = self.password()? {
            config.password(password);
        }
        Ok(config)
    }

    /// Returns the command with which PostgreSQL's own programs copy this schema, even while an engine works.
    pub fn dump_command(&self, to: &Path) -> String {
        format!(
            "pg_dump --format=custom --schema={} --file={} {}",
            self.schema,
            quoted(&to.display().to_string()),
            self.for_programs()
        )
    }

    /// Returns the command with which PostgreSQL's own programs restore the copy of [`Self::dump_command`].
    pub fn restore_command(&self, from: &Path) -> String {
        let from = quoted(&from.display().to_string());
        format!(
            "pg_restore --exit-on-error --dbname={} {from}",
            self.for_programs()
        )
    }

    /// Returns the URL as PostgreSQL's own programs take it, quoted for a shell: without the schema and the pooler, and
    /// as strict about TLS as gone is.
    fn for_programs(&self) -> String {
        let (base, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let mut parameters = form_urlencoded::Serializer::new(String::new());
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            if !["schema", "sslmode", "pooler"].contains(&&*key) {
                parameters.append_pair(&key, &value);
            }
        }
        let mode = if self.use_tls {
            "verify-full"
        } else {
            "disable"
        };
        parameters.append_pair("sslmode", mode);
        if self.use_tls && self.roots.is_none() {
            parameters.append_pair("sslrootcert", "system");
        }
        quoted(&format!("{base}?{}", parameters.finish()))
    }

    fn password(&self) -> Sql<Option<String>> {
        let Some(file) = self.passfile.as_deref() else {
            return Ok(None);
        };
        let refused = |why: String| Failed::Impossible(format!("{}: {why}", file.display()));
        let text = read_private(file).map_err(|error| refused(error.to_string()))?;
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let user = self.config.get_user().unwrap_or_default();
        let database = self.config.get_dbname().unwrap_or(user);
        // A primary and its standbys have the same roles.
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.as_str(),
            _ => "localhost",
        };
        let wanted = [host, &port.to_string(), database, user];
        Ok(text.lines().find_map(|line| password_in(line, &wanted)))
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.url).finish()
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn read_private(file: &Path) -> std::io::Result<String> {
    let mut opened = private::open(file, Trusted::us())?;
    if opened.metadata()?.permissions().mode() & 0o077 != 0 {
        let why = "other users may read or write it: run chmod 600 on it first";
        return Err(std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            why,
        ));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the password of a line of a password file, if the line is for this host, port, database and user. A
/// field `*` fits any value, and a backslash with the character after it stands for that character.
fn password_in(line: &str, wanted: &[&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let is_separator = character == ':' && fields.len() <= wanted.len();
        let character = match character {
            '\\' => characters.next()?,
            other => other,
        };
        match (is_separator, fields.last_mut()) {
            (true, _) => fields.push(String::new()),
            (false, Some(field)) => field.push(character),
            (false, None) => return None,
        }
    }
    let password = (fields.len() > wanted.len())
        .then(|| fields.pop())
        .flatten()?;
    let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
    fields.iter().zip(wanted).all(fits).then_some(password)
}
