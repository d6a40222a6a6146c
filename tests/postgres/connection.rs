//! Connections to a server: its certificate, and the file with the password.

use std::os::unix::fs::PermissionsExt as _;

use gone::ledger::postgres::{Address, can_write};

use crate::server::OwnServer;

const PASSWORD: &str = "p:w-Zc8Yb2";

#[test]
fn a_connection_needs_a_trusted_certificate_and_a_password_from_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let (_server, port) = OwnServer::with_tls(folder.path(), &certificate, &key, PASSWORD);
    let files = tempfile::tempdir().unwrap();
    let (roots, passfile) = (files.path().join("roots"), files.path().join("pass"));
    std::fs::write(&roots, &certificate).unwrap();
    let allow = |mode: u32| {
        std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let escaped = PASSWORD.replace(':', "\\:");
    let lines = format!("# of others\nelsewhere:*:*:*:no\nlocalhost:{port}:*:ada:{escaped}\n");
    std::fs::write(&passfile, lines).unwrap();
    allow(0o600);
    let (roots, passfile_of) = (roots.display(), passfile.display());
    let connect = |host: &str, more: &str| {
        let url = format!("postgres://ada@{host}:{port}/gone?schema=ada{more}");
        let result = can_write(&Address::parse(&url).unwrap());
        let result = result.map_err(|error| error.to_string());
        assert!(!format!("{result:?}").contains("Zc8Yb2"), "{result:?}");
        result
    };
    let assert_refused = |host: &str, more: &str, why: &str| {
        let error = connect(host, more).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    };
    let (pass, trust) = (
        format!("&passfile={passfile_of}"),
        format!("&sslrootcert={roots}"),
    );
    connect("localhost", &format!("{pass}{trust}")).unwrap();
    assert_refused("localhost", &pass, "certificate");
    assert_refused("127.0.0.1", &format!("{pass}{trust}"), "certificate");
    assert_refused("localhost", &trust, "password missing");
    assert_refused(
        "localhost",
        &format!("{pass}&sslmode=disable"),
        "no encryption",
    );
    allow(0o640);
    assert_refused("localhost", &format!("{pass}{trust}"), "chmod 600");
}
