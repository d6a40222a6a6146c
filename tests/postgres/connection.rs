//! How a server is reached: its certificate, and where the password comes from.

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
    let tried = |host: &str, more: &str| {
        let url = format!("postgres://ada@{host}:{port}/gone?schema=ada{more}");
        let said = can_write(&Address::parse(&url).unwrap());
        let said = said.map_err(|error| error.to_string());
        assert!(!format!("{said:?}").contains("Zc8Yb2"), "{said:?}");
        said
    };
    let refused = |host: &str, more: &str, why: &str| {
        let said = tried(host, more).unwrap_err();
        assert!(said.contains(why), "{why}: {said}");
    };
    let (pass, trust) = (
        format!("&passfile={passfile_of}"),
        format!("&sslrootcert={roots}"),
    );
    tried("localhost", &format!("{pass}{trust}")).unwrap();
    refused("localhost", &pass, "certificate");
    refused("127.0.0.1", &format!("{pass}{trust}"), "certificate");
    refused("localhost", &trust, "password missing");
    refused(
        "localhost",
        &format!("{pass}&sslmode=disable"),
        "no encryption",
    );
    allow(0o640);
    refused("localhost", &format!("{pass}{trust}"), "chmod 600");
}
