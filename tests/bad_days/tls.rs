//! A server with a self-signed certificate.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto::aws_lc_rs};

/// Makes an acceptor for `localhost`. Returns its self-signed certificate as PEM, too.
pub fn acceptor() -> (TlsAcceptor, String) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), own.cert.pem())
}

/// Starts a server that accepts connections until the test ends. Returns its port.
pub fn start_untrusted_server() -> u16 {
    let (acceptor, _) = acceptor();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap().port()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust the certificate breaks off the handshake.
                let _ = acceptor.accept(stream).await;
            }
        });
    });
    receive.recv().unwrap()
}
