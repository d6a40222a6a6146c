//! A pgbouncer that tests start. It gives each transaction one of a few sessions of the server.
//!
//! It needs `apt-get install --no-install-recommends pgbouncer`. `GONE_POSTGRES_POOLER=transaction cargo test --test
//! postgres` runs all tests of the shared server through a pooler.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gone::domain::model::StepState;
use gone::ledger::migrate::migrate;
use gone::ledger::postgres::{Address, PostgresLedger, can_write, upkeep};
use gone::ledger::{EngineTerms, Engines as _, LedgerError, Location, WorkQueue as _};

use crate::faults::end_steps_despite;
use crate::server::{self, OwnServer};
use crate::stage::Stage;
use crate::stores::run_blocking;
use crate::support::{Folder, at, capacity, end_step, ports, start_deletion};

/// The pooler listens on no port; its socket is named after this number.
const PORT: u16 = 6432;
const STARTED_WITHIN: Duration = Duration::from_secs(30);

/// A pooler that runs until it is dropped or the process of its test ends.
pub struct Pooler {
    folder: PathBuf,
    settings: String,
    /// A shell that kills the pooler and removes its folder as soon as the shell's input ends.
    child: Child,
}

impl Pooler {
    /// Starts a pooler in front of the server with this folder. All clients share this number of its sessions.
    pub fn start(folder: &Path, server: &Path, sessions: usize) -> Self {
        let settings = format!(
            "[databases]\n* = host={} port=5432 user=postgres\n[pgbouncer]\n\
             pool_mode = transaction\ndefault_pool_size = {sessions}\nmax_client_conn = 500\nserver_login_retry = 1\n\
             auth_type = any\nlisten_port = {PORT}\nunix_socket_dir = {}\n",
            server.display(),
            folder.display()
        );
        let child = spawn(folder, &settings);
        let folder = folder.to_owned();
        Self {
            folder,
            settings,
            child,
        }
    }

    /// The URL of a ledger behind the pooler.
    pub fn url(&self, schema: &str) -> String {
        let folder = self.folder.display();
        format!(
            "postgres://postgres@/postgres?host={folder}&port={PORT}&schema={schema}&pooler=transaction"
        )
    }

    /// Runs statements as another client would. Returns the text of their results.
    pub fn run_sql(&self, sql: &str) -> String {
        server::query_at(&self.folder, PORT, sql).unwrap()
    }

    pub fn kill(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.child = spawn(&self.folder, &self.settings);
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(folder: &Path, settings: &str) -> Child {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("pgbouncer.ini"), settings).unwrap();
    server::give_to_user(folder);
    let socket = folder.join(format!(".s.PGSQL.{PORT}"));
    let pooler = server::as_a_user(&program());
    let mut shell = Command::new("sh");
    let guard = "\"$@\" >\"$0\"/log 2>&1 & read -r _; kill -9 $!; rm -rf \"$0\"";
    shell.args(["-c", guard]);
    shell.arg(folder).arg(pooler.get_program());
    shell
        .args(pooler.get_args())
        .arg(folder.join("pgbouncer.ini"));
    let child = shell.stdin(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    while UnixStream::connect(&socket).is_err() {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(
            since.elapsed() < STARTED_WITHIN,
            "the pooler did not start:\n{log}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut programs = folders.map(|folder| folder.join("pgbouncer"));
    programs
        .find(|program| program.exists())
        .expect("these tests need pgbouncer: apt-get install --no-install-recommends pgbouncer")
}

/// The address of a new schema on the shared server: through a pooler, if the environment says so.
pub fn address() -> Address {
    static POOLER: OnceLock<Pooler> = OnceLock::new();
    let direct = server::shared().address();
    match std::env::var("GONE_POSTGRES_POOLER").as_deref() {
        Ok("transaction") => {
            let pooler = POOLER.get_or_init(|| {
                let folder = tempfile::tempdir().unwrap().keep();
                Pooler::start(&folder, server::shared().folder(), 4)
            });
            Address::parse(&pooler.url(direct.schema())).unwrap()
        }
        Ok(other) => panic!("GONE_POSTGRES_POOLER is transaction, or not set; not {other:?}"),
        Err(_) => direct,
    }
}

/// A server behind a pooler, each in a folder of its own.
fn start_behind_pooler(sessions: usize) -> (OwnServer, Pooler, [tempfile::TempDir; 2]) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let server = OwnServer::start(folders[0].path());
    let pooler = Pooler::start(folders[1].path(), server.folder(), sessions);
    (server, pooler, folders)
}

async fn engine(address: &Address, name: &str) -> Result<PostgresLedger, LedgerError> {
    let (address, name) = (address.clone(), name.to_owned());
    let terms = EngineTerms {
        name,
        ..EngineTerms::default()
    };
    let ledger = run_blocking(move || PostgresLedger::open(&address, None, terms)).await?;
    ledger.begin_work();
    Ok(ledger)
}

/// Two engines with twelve connections share three sessions. They end all steps while the pooler and the server are
/// killed alternately. Acknowledged outcomes are kept, and no step is claimed twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_behind_a_pooler_continue_after_the_pooler_or_the_server_is_killed() {
    let (server, pooler, _folders) = run_blocking(|| start_behind_pooler(3)).await;
    let address = Address::parse(&pooler.url("pooled")).unwrap();
    let first = engine(&address, "first").await.unwrap();
    let second = engine(&address, "second").await.unwrap();
    let kill = |(server, pooler): &mut (OwnServer, Pooler), round| {
        if round % 2 == 0 {
            pooler.kill();
            std::thread::sleep(Duration::from_millis(150));
            pooler.restart();
        } else {
            server.kill();
            std::thread::sleep(Duration::from_millis(150));
            server.restart();
        }
    };
    let _servers = end_steps_despite(&[&first, &second], (server, pooler), 4, kill).await;
    assert_eq!(first.engines().await.unwrap().len(), 2);
    let checked = run_blocking(move || upkeep::check(&address)).await.unwrap();
    let broken: Vec<_> = checked.iter().filter(|rule| rule.broken > 0).collect();
    assert!(broken.is_empty(), "{broken:?}");
    first.close().await;
    second.close().await;
}

/// Another client of a shared session finds the server's own settings, and no prepared statements and no channels of
/// gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_leaves_no_settings_or_statements_in_the_sessions_of_a_pooler() {
    let (_server, pooler, _folders) = run_blocking(|| start_behind_pooler(1)).await;
    let address = Address::parse(&pooler.url("pooled")).unwrap();
    let ledger = engine(&address, "first").await.unwrap();
    start_deletion(&ledger, "one", &ports(&[("a", &[])])).await;
    for step in ledger.claim(vec![capacity(1)], at(1)).await.unwrap() {
        end_step(&ledger, &step, StepState::Gone, at(2)).await;
    }
    let left = "SELECT current_setting('search_path'), current_setting('enable_seqscan'),
         (SELECT count(*) FROM pg_prepared_statements), count(*) FROM pg_listening_channels()";
    let (pooler, found) = run_blocking(move || {
        let found = pooler.run_sql(left);
        (pooler, found)
    })
    .await;
    assert_eq!(found, "\"$user\", public|on|0|0");
    ledger.close().await;
    drop(pooler);
}

/// In the session, another client has prepared statements with the names that gone uses.
#[test]
fn the_error_of_a_statement_behind_an_undeclared_pooler_names_the_url_option() {
    let (_server, pooler, _folders) = start_behind_pooler(1);
    pooler.run_sql("DO 'BEGIN FOR n IN 0..99 LOOP EXECUTE format(''PREPARE s%s AS SELECT 1'', n); END LOOP; END'");
    let url = pooler.url("pooled").replace("&pooler=transaction", "");
    let stage = Stage::new();
    stage.settings(&format!("[ledger]\npath = '{url}'\n"));
    let checked = stage.gone("ledger check");
    checked.stderr_has(&["add ?pooler=transaction to the URL"]);
}

#[test]
fn the_backup_command_names_the_server_and_says_that_a_pooler_does_not_work() {
    let stage = Stage::new();
    let url = "postgres://gone@db.example:6432/gone?pooler=transaction";
    stage.settings(&format!("[ledger]\npath = '{url}'\n"));
    let copied = stage.gone("ledger backup /backup/gone.dump").ends_with(2);
    copied.stderr_has(&["db.example:6432/gone?sslmode=", "not its pooler"]);
}

/// A copy needs a session of its own. The refusal says what to do.
#[tokio::test]
async fn a_ledger_is_not_copied_through_a_pooler() {
    let (_server, pooler, _folders) = run_blocking(|| start_behind_pooler(2)).await;
    let url = pooler.url("pooled");
    let address = Address::parse(&url).unwrap();
    assert!(can_write(&address).is_ok());
    engine(&address, "first").await.unwrap().close().await;
    let folder = Folder::new();
    let from = Location::Postgres(Box::new(address));
    let to = Location::File(folder.path("to.db"));
    let refused = run_blocking(move || migrate(&from, &to, &[], &mut |_| {})).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("without ?pooler=transaction"), "{refused}");
}
