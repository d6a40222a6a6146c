//! The file of the socket: it is private, is never taken from another engine, and is re-created if it vanishes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gone::control::remote::RemoteControl;
use gone::domain::model::Scope;
use gone::frontends::api::{ServeError, ServeOptions, serve};
use tempfile::TempDir;

use crate::bench::{Bench, client, eventually, options};
use crate::fake::Fake;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

async fn serve_at(socket: &Path) -> Result<gone::frontends::api::ApiHandle, ServeError> {
    serve(Fake::new(1), options(socket)).await
}

#[tokio::test]
async fn the_socket_and_its_folder_are_private() {
    let bench = Bench::new().await;
    assert_eq!(mode(&bench.socket), 0o600);
    assert_eq!(mode(bench.socket.parent().unwrap()), 0o700);
}

#[tokio::test]
async fn a_socket_for_named_uids_and_its_folder_let_other_users_connect() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("run/gone.sock");
    let options = ServeOptions {
        uids: [(4711, Scope::View)].into(),
        ..options(&socket)
    };
    let api = serve(Fake::new(1), options).await.unwrap();
    assert_eq!(mode(&socket), 0o666);
    assert_eq!(mode(socket.parent().unwrap()), 0o711);
    api.stop().await;
}

#[tokio::test]
async fn p12_600_silent_connections_keep_no_other_client_from_the_socket() {
    let bench = Bench::new().await;
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(
            tokio::net::UnixStream::connect(&bench.socket)
                .await
                .unwrap(),
        );
    }
    for _ in 0..20 {
        let answer = client(&bench.socket).get("http://gone/healthz");
        assert_eq!(answer.send().await.unwrap().status(), 200);
    }
    println!(
        "{} silent connections open, 20 of 20 requests answered",
        silent.len()
    );
}

#[tokio::test]
async fn p12_an_existing_private_folder_is_opened_for_named_uids() {
    let folder = TempDir::new().unwrap();
    let own = folder.path().join("state");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let socket = own.join("gone.sock");
    let options = ServeOptions {
        uids: [(4711, Scope::View)].into(),
        ..options(&socket)
    };
    let api = serve(Fake::new(1), options).await.unwrap();
    assert_eq!(
        mode(&own),
        0o711,
        "the socket can be reached, and the folder cannot be listed"
    );
    api.stop().await;
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("gone.sock");
    // A listener that ended without removing its file, as when it was killed.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let api = serve_at(&socket).await.unwrap();
    let answer = client(&socket).get("http://gone/healthz").send().await;
    assert_eq!(answer.unwrap().status(), 200);

    let second = serve_at(&socket).await.unwrap_err();
    assert!(matches!(second, ServeError::InUse(_)), "{second}");
    let answer = client(&socket).get("http://gone/healthz").send().await;
    assert_eq!(answer.unwrap().status(), 200, "the first still serves");
    api.stop().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_file_that_is_not_a_socket_is_never_removed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("gone.sock");
    fs::write(&file, "precious").unwrap();
    let error = serve_at(&file).await.unwrap_err();
    assert!(matches!(error, ServeError::NotASocket(_)), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[tokio::test]
async fn a_socket_folder_in_which_others_may_replace_files_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = serve_at(&folder.path().join("gone.sock"))
        .await
        .unwrap_err();
    assert!(matches!(error, ServeError::OpenFolder(_)), "{error}");
}

#[tokio::test]
async fn a_socket_whose_file_vanished_is_bound_again() {
    let bench = Bench::new().await;
    let attached = RemoteControl::connect(&bench.socket).await.unwrap();
    for _ in 0..2 {
        fs::remove_dir_all(bench.socket.parent().unwrap()).unwrap();
        eventually("a fresh client is served", async || {
            let http = client(&bench.socket);
            let answer = http.get("http://gone/healthz").send().await;
            answer.is_ok_and(|answer| answer.status() == 200)
        })
        .await;
        assert_eq!(mode(&bench.socket), 0o600);
    }
    assert_eq!(attached.snapshot().borrow().engine.fault, None);
}

#[tokio::test]
async fn a_stopping_engine_leaves_the_socket_of_another_engine() {
    let bench = Bench::new().await;
    let late = ServeOptions {
        // The API does not check the file of its socket again, as if it had not noticed the change yet.
        socket_check: std::time::Duration::from_secs(3600),
        ..options(&bench.socket)
    };
    let socket = bench.socket.clone();
    bench.api.stop().await;
    let first = serve(Fake::new(1), late).await.unwrap();
    // An interval's first tick comes at once: the first check must be over before the file is replaced.
    let answer = client(&socket).get("http://gone/healthz").send().await;
    assert_eq!(answer.unwrap().status(), 200);
    fs::remove_file(&socket).unwrap();
    let second = serve_at(&socket).await.unwrap();
    first.stop().await;
    let answer = client(&socket).get("http://gone/healthz").send().await;
    assert_eq!(answer.unwrap().status(), 200);
    second.stop().await;
}
