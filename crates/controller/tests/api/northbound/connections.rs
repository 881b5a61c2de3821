//! Connections that cost: idle ones, half-sent ones, broken ones, and those of another TLS.

use crate::support::agent::{FakeAgent, enroll};
use crate::support::{Controller, PATIENCE, open};
use catena_controller::Auth;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

fn address(controller: &Controller) -> SocketAddr {
    controller.url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// What a controller answers to these bytes, after which the client sends no more.
fn answer(controller: &Controller, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address(controller)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn idle_and_half_sent_connections_lock_nobody_out() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(folder.path()));
    assert_eq!(controller.call("GET", "/v2.0/networks", None).0, 200);
    let mut held = Vec::new();
    for number in 0..1_100 {
        for to in [address(&controller), controller.southbound] {
            let mut stream = TcpStream::connect(to).unwrap();
            if number % 2 == 0 {
                // A connection that was ended meanwhile is what this is about.
                let _ = stream.write_all(b"GET /v2.0/networks HTTP/1.1\r\nHost: local");
            }
            held.push(stream);
        }
    }
    for _ in 0..3 {
        // Not the connection from before: a client that comes now.
        let client = crate::support::http();
        let answer = client.get(format!("{}/v2.0/networks", controller.url)).send().unwrap();
        assert_eq!(answer.status(), 200);
    }
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let deadline = Instant::now() + PATIENCE;
    while controller.get("/v1/nodes")[0]["status"]["is_connected"] != true {
        assert!(Instant::now() < deadline, "{}", controller.get("/v1/nodes"));
        std::thread::sleep(Duration::from_millis(10));
    }
    drop((agent, held));
}

#[test]
fn a_chunk_that_is_none_is_a_bad_request_and_no_large_one() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(folder.path()));
    for (path, kind) in [
        ("/v2.0/networks", "application/json"),
        ("/v1/tokens", "application/json"),
        ("/v1/bulk", "application/x-ndjson"),
    ] {
        for chunks in ["zz\r\n{}\r\n0\r\n\r\n", "5\r\n{\"ne", "ffffffffffffffffff\r\n{}"] {
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n\
                 Transfer-Encoding: chunked\r\n\r\n{chunks}"
            );
            let said = answer(&controller, request.as_bytes());
            let status = said.split(' ').nth(1).unwrap_or_default();
            if path == "/v1/bulk" {
                assert!(status == "400" || said.contains("\"status\":400"), "{chunks:?}: {said}");
            } else {
                assert_eq!(status, "400", "{path} {chunks:?}: {said}");
            }
        }
    }
    assert_eq!(controller.get("/v2.0/networks")["networks"], json!([]));
}

#[test]
fn links_begin_as_the_client_called_when_a_trusted_proxy_says_so() {
    for (trusted, scheme) in [("127.0.0.0/8", "https"), ("192.0.2.0/24", "http")] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = open(folder.path());
        config.trusted_proxies = vec![trusted.parse().unwrap()];
        let controller = Controller::start(config);
        for name in ["a", "b"] {
            controller.create("/v2.0/networks", &json!({"name": name}));
        }
        let (http, url) = controller.raw();
        for path in ["/", "/v2.0/", "/v2.0/networks?limit=1"] {
            let request = http.get(format!("{url}{path}")).header("X-Forwarded-Proto", "https");
            let text = request.send().unwrap().text().unwrap();
            let links = text.split("\"href\":\"").skip(1).collect::<Vec<_>>();
            assert!(!links.is_empty(), "{path}: {text}");
            for link in links {
                assert!(link.starts_with(&format!("{scheme}://127.0.0.1:")), "{path}: {link}");
            }
        }
    }
}

/// A handshake with the certificate of a node, by one version of TLS.
fn shake_hands(
    controller: &Controller,
    version: &'static rustls::SupportedProtocolVersion,
) -> Result<Option<rustls::ProtocolVersion>, std::io::Error> {
    let folder = enroll(&controller.data, "host1");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&read("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots);
    let certificate = CertificateDer::from_pem_slice(&read("node.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("node.key")).unwrap();
    let mut config = config.with_client_auth_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = "controller".try_into().unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(controller.southbound).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(session.protocol_version())
}

#[test]
fn nodes_speak_tls_1_3_and_nothing_older() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(folder.path()));
    assert_eq!(controller.call("GET", "/v2.0/networks", None).0, 200);
    let newest = shake_hands(&controller, &rustls::version::TLS13).unwrap();
    assert_eq!(newest, Some(rustls::ProtocolVersion::TLSv1_3));
    let older = shake_hands(&controller, &rustls::version::TLS12).unwrap_err();
    assert!(older.to_string().contains("ProtocolVersion"), "{older}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(piece)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of all controllers of this process.
fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        subscriber.with_ansi(false).init();
        log
    })
}

#[test]
fn a_failed_login_and_a_failed_handshake_are_in_the_log_without_what_was_shown() {
    let log = log();
    let folder = tempfile::tempdir().unwrap();
    let mut config = open(folder.path());
    config.auth = Auth::Token;
    let controller = Controller::start(config);
    let (http, url) = controller.raw();
    let guess = "0123456789abcdef".repeat(4);
    let path = format!("/v2.0/networks?token={guess}");
    let request = http.get(format!("{url}{path}")).header("X-Auth-Token", &guess);
    assert_eq!(request.send().unwrap().status(), 401);
    let mut stream = TcpStream::connect(controller.southbound).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains(&guess), "{text}");
        let login =
            "without a valid token were refused, the last from 127.0.0.1: GET /v2.0/networks";
        let lines = [login, "handshakes failed, the last from 127.0.0.1:"];
        if lines.iter().all(|line| text.contains(line)) {
            return;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
