//! A PostgreSQL server that tests start, in a folder of its own. It listens on a socket there, and on a port only for
//! tests of TLS.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gone::ledger::postgres::Address;

const STARTED_WITHIN: Duration = Duration::from_secs(60);

/// A server that many test processes share. It is stopped once all of them have ended, in whatever way.
pub struct Server {
    folder: PathBuf,
    /// The file `users`, on which this process has a shared lock for as long as it may use the server.
    _user: File,
    /// The server and the shell that stops it, if this process started them. They may outlive this process.
    started: Vec<Child>,
    /// The host name on which the server listens besides its socket; empty for none.
    listens: &'static str,
    port: u16,
    /// Whether commits survive a loss of power. If not, the server is faster.
    durable: bool,
}

/// An open transaction of another client. It ends when this value is dropped.
pub struct OpenTransaction {
    session: Child,
    _input: ChildStdin,
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        let _ = self.session.kill();
        let _ = self.session.wait();
    }
}

/// A server of one test, which may kill it.
pub struct OwnServer {
    server: Server,
    child: Child,
}

impl OwnServer {
    pub fn start(folder: &Path) -> Self {
        Self::start_as(folder, false)
    }

    /// Starts a server that waits for the disk at each commit, as servers in production do.
    pub fn durable(folder: &Path) -> Self {
        Self::start_as(folder, true)
    }

    fn start_as(folder: &Path, durable: bool) -> Self {
        let mut server = Server::in_folder(folder.to_owned());
        server.durable = durable;
        server.create();
        let child = server.spawn();
        Self { server, child }
    }

    /// Starts a standby, for which this server waits at each commit from now on.
    pub fn with_standby(&self, folder: &Path) -> Self {
        let server = Server::in_folder(folder.to_owned());
        give_to_user(&server.folder);
        let mut copying = as_a_user(&programs().join("pg_basebackup"));
        copying.args([
            "-U",
            "postgres",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        ]);
        copying.arg("-D").arg(folder.join("data"));
        let copied = copying.arg("-h").arg(&self.server.folder).output().unwrap();
        let stderr = String::from_utf8_lossy(&copied.stderr);
        assert!(copied.status.success(), "pg_basebackup: {stderr}");
        let child = server.spawn();
        self.run_sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.run_sql("SELECT pg_reload_conf()");
        let since = Instant::now();
        while self.run_sql("SELECT sync_state FROM pg_stat_replication") != "sync" {
            assert!(
                since.elapsed() < STARTED_WITHIN,
                "the standby does not follow"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { server, child }
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        assert_eq!(self.run_sql("SELECT pg_promote()"), "t");
    }

    pub fn folder(&self) -> &Path {
        &self.server.folder
    }

    /// Starts a server that also listens on a port of `localhost`, with this certificate and key as PEM. The role `ada`
    /// needs TLS and this password there.
    pub fn with_tls(folder: &Path, certificate: &str, key: &str, password: &str) -> (Self, u16) {
        let mut server = Server::in_folder(folder.to_owned());
        server.create();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        server.port = free.local_addr().unwrap().port();
        server.listens = "localhost";
        let data = folder.join("data");
        let hba = "local all postgres trust\nhostssl all ada all scram-sha-256\n";
        let files = [
            ("own.pem", certificate),
            ("own.key", key),
            ("pg_hba.conf", hba),
        ];
        for (name, text) in files {
            fs::write(data.join(name), text).unwrap();
            fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o600)).unwrap();
            give_to_user(&data.join(name));
        }
        let settings = "ssl = on\nssl_cert_file = 'own.pem'\nssl_key_file = 'own.key'\n";
        let conf = File::options()
            .append(true)
            .open(data.join("postgresql.conf"));
        conf.unwrap().write_all(settings.as_bytes()).unwrap();
        drop(free);
        let child = server.spawn();
        server.run_sql(&format!("CREATE ROLE ada LOGIN PASSWORD '{password}'"));
        server.run_sql("CREATE DATABASE gone OWNER ada");
        let port = server.port;
        (Self { server, child }, port)
    }

    pub fn address(&self) -> Address {
        self.server.address()
    }

    pub fn address_of(&self, schema: &str) -> Address {
        self.server.address_of(schema)
    }

    pub fn url(&self, schema: &str) -> String {
        self.server.url(schema)
    }

    pub fn run_sql(&self, sql: &str) -> String {
        self.server.run_sql(sql)
    }

    pub fn query(&self, sql: &str) -> Result<String, String> {
        self.server.query(sql)
    }

    /// Kills the server at once, as a crash would.
    pub fn kill(&mut self) {
        // Its children notice by themselves; the next start waits for them.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.child = self.server.spawn();
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server that the tests of this build share.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        // A socket's path may have at most 107 bytes, so it is not below the folder of the build.
        let build = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let name = uuid::Uuid::new_v5(
            &uuid::Uuid::NAMESPACE_URL,
            build.as_os_str().as_encoded_bytes(),
        );
        Server::start(std::env::temp_dir().join(format!("gone-postgres-{}", name.simple())))
    })
}

impl Server {
    fn in_folder(folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let user = File::create(folder.join("users")).unwrap();
        user.lock_shared().unwrap();
        Self {
            folder,
            _user: user,
            started: Vec::new(),
            listens: "",
            port: 5432,
            durable: false,
        }
    }

    /// Starts a server in this folder, unless another process has started it.
    fn start(folder: PathBuf) -> Self {
        let mut server = Self::in_folder(folder);
        let starting = File::create(server.folder.join("starting")).unwrap();
        starting.lock().unwrap();
        if !server.answers() {
            server.create();
            server.run();
        }
        server
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address of a new schema.
    pub fn address(&self) -> Address {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        Address::parse(&self.url(&format!("t_{}_{number}", std::process::id()))).unwrap()
    }

    pub fn url(&self, schema: &str) -> String {
        let folder = self.folder.display();
        format!("postgres://postgres@/postgres?host={folder}&schema={schema}")
    }

    /// The address of this schema.
    pub fn address_of(&self, schema: &str) -> Address {
        Address::parse(&self.url(schema)).unwrap()
    }

    /// Runs statements as another client would. Returns the text of their results.
    pub fn run_sql(&self, sql: &str) -> String {
        self.query(sql).unwrap()
    }

    /// Runs statements as another client would. Returns the text of their results, or why they failed.
    pub fn query(&self, sql: &str) -> Result<String, String> {
        query_at(&self.folder, self.port, sql)
    }

    /// Opens a transaction as another client would. Its locks are kept until the returned value is dropped.
    pub fn open_transaction(&self, sql: &str) -> OpenTransaction {
        let mut psql = Command::new(programs().join("psql"));
        psql.args([
            "-qXAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-h",
        ]);
        let mut session = psql
            .arg(&self.folder)
            .args(["-p", &self.port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = session.stdin.take().unwrap();
        writeln!(input, "BEGIN; {sql}; SELECT 'held';").unwrap();
        let output = BufReader::new(session.stdout.take().unwrap());
        assert!(output.lines().any(|line| line.unwrap() == "held"));
        OpenTransaction {
            session,
            _input: input,
        }
    }

    fn create(&self) {
        if self.folder.join("data/PG_VERSION").exists() {
            return;
        }
        give_to_user(&self.folder);
        let mut initdb = as_a_user(&programs().join("initdb"));
        initdb.args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "-D",
        ]);
        let created = initdb.arg(self.folder.join("data")).output().unwrap();
        let stderr = String::from_utf8_lossy(&created.stderr);
        assert!(created.status.success(), "initdb: {stderr}");
    }

    /// Starts the server, and a shell that stops it and removes its data once no process has `users` locked.
    fn run(&mut self) {
        let server = self.spawn();
        let guard = "
            server=$(head -n 1 \"$0\"/data/postmaster.pid)
            while kill -0 $server; do
                sleep 5
                flock -n -x \"$0\"/users sh -c 'kill -INT '$server'
                    while kill -0 '$server'; do sleep 0.05; done; rm -rf \"$0\"/data' \"$0\"
            done";
        let mut guarding = Command::new("sh");
        guarding
            .args(["-c", guard])
            .arg(&self.folder)
            .process_group(0);
        guarding
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.started = vec![server, guarding.spawn().unwrap()];
    }

    /// Starts the server, and returns its process once it answers. A start fails, and is repeated, while a process of a
    /// server that was killed before still exists.
    fn spawn(&self) -> Child {
        let since = Instant::now();
        let mut child = self.spawn_once();
        while !self.answers() {
            if child.try_wait().unwrap().is_some() {
                child = self.spawn_once();
            }
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(
                since.elapsed() < STARTED_WITHIN,
                "the server did not start:\n{log}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        child
    }

    fn spawn_once(&self) -> Child {
        let mut log = File::options();
        let log = log
            .append(true)
            .create(true)
            .open(self.folder.join("log"))
            .unwrap();
        let mut postgres = as_a_user(&programs().join("postgres"));
        postgres
            .arg("-D")
            .arg(self.folder.join("data"))
            .arg("-k")
            .arg(&self.folder);
        postgres.args(["-c", "max_connections=200"]);
        if !self.durable {
            postgres.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
        }
        postgres.args(["-c", &format!("listen_addresses={}", self.listens)]);
        // A standby connects to its primary again after 0.2 s, not after 5 s.
        postgres.args(["-c", "wal_retrieve_retry_interval=200ms"]);
        postgres.args(["-p", &self.port.to_string()]);
        postgres.process_group(0).stdin(Stdio::null());
        postgres
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn answers(&self) -> bool {
        let mut isready = Command::new(programs().join("pg_isready"));
        let answered = isready
            .args(["-q", "-p", &self.port.to_string(), "-h"])
            .arg(&self.folder)
            .status();
        answered.is_ok_and(|status| status.success())
    }
}

/// Runs statements at this socket. Returns the text of their results, or why they failed.
pub fn query_at(folder: &Path, port: u16, sql: &str) -> Result<String, String> {
    let mut psql = Command::new(programs().join("psql"));
    psql.args(["-qXtA", "-v", "ON_ERROR_STOP=1", "-U", "postgres"]);
    psql.args(["-d", "postgres", "-h"]).arg(folder);
    psql.args(["-p", &port.to_string(), "-c", sql]);
    let run = psql.output().unwrap();
    let output = match run.status.success() {
        true => Ok(run.stdout),
        false => Err(run.stderr),
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    output.map(text).map_err(text)
}

/// Lets the user of the server's programs write this file or folder.
pub fn give_to_user(path: &Path) {
    if is_root() {
        let owned = Command::new("chown").arg("nobody").arg(path).status();
        assert!(owned.unwrap().success());
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command that runs this program as a user other than root, because PostgreSQL and its poolers do not run as
/// root.
pub fn as_a_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    command.arg(program);
    command
}

/// The folder with the newest server's programs.
pub fn programs() -> PathBuf {
    installed().expect(
        "these tests need PostgreSQL: apt-get install --no-install-recommends postgresql, or name the \
         folder of initdb and postgres in GONE_POSTGRES_BIN",
    )
}

/// The folder with the newest server's programs; none if no server is installed.
pub fn installed() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("GONE_POSTGRES_BIN") {
        return Some(folder.into());
    }
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let version = |folder: &PathBuf| {
        let name = folder.file_name()?.to_str()?;
        name.parse::<u32>().ok()
    };
    let newest = installed
        .flatten()
        .map(|entry| entry.path())
        .max_by_key(version);
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).find(|it| it.join("initdb").exists());
    newest.map(|folder| folder.join("bin")).or(on_path)
}
