//! Story 20: two engines on one ledger, each with a gate; the server is restarted, and one engine is killed.

use serde_json::{Value, json};

use super::kill::start_engine;
use super::server::OwnServer;
use super::stage::{Running, Stage, text, wait_for};

const PORTS: u32 = 30;

/// The address of an engine's gate, from the engine's log.
fn gate_of(engine: &Running) -> String {
    let mut address = None;
    wait_for("the gate", || {
        let log = engine.err();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut open = lines.filter(|line| line["message"] == "a gate is open");
        address = open.next().map(|line| text(&line["address"]));
        address.is_some()
    });
    address.unwrap()
}

/// A client of gates.
struct Client {
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    token: String,
}

impl Client {
    fn new(stage: &Stage) -> Self {
        Self {
            runtime: tokio::runtime::Runtime::new().unwrap(),
            http: reqwest::Client::new(),
            token: stage.token(),
        }
    }

    /// Sends a request to a gate, and returns the status of the answer.
    fn ask(&self, method: &str, gate: &str, path: &str, body: &Value) -> u16 {
        let url = format!("http://{gate}/RegionOne/network/v2.0/{path}");
        let request = self.http.request(method.parse().unwrap(), url);
        let request = request.header("x-auth-token", &self.token).json(body);
        let answer = self.runtime.block_on(request.send());
        answer.unwrap().status().as_u16()
    }

    /// Requests a new port in a network, and returns the status of the answer.
    fn add_port(&self, gate: &str, network: &str) -> u16 {
        let port = json!({"port": {"network_id": network, "name": "late"}});
        self.ask("POST", gate, "ports", &port)
    }
}

#[test]
fn story_20_two_engines_and_two_gates_survive_a_server_restart_and_a_killed_engine() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = OwnServer::start(folder.path());
    let address = server.address_of("shared");
    let stage = Stage::new();
    stage.settings(&format!(
        "[ledger]\npath = '{address}'\n[engine]\nconcurrency = 2\nconcurrency_max = 4\n\
         call_timeout = '2s'\nlease = '4s'\n[[gate]]\nlisten = '127.0.0.1:0'\nsource = 'user'\n\
         upstream = {{ cloud = 'prod', region = 'RegionOne', service = 'network' }}\n"
    ));
    let network = stage.network("doomed", PORTS);
    stage.limits(json!({"latency_ms": 200, "parallel": 8}));
    let first = start_engine(&stage, &address);
    let socket = stage.path("second.sock");
    let by_second = format!("--socket {}", socket.display());
    let second = stage.start(&format!("--engine {by_second}"));
    let gates = [gate_of(&first), gate_of(&second)];
    let client = Client::new(&stage);

    // The second engine accepts the deletion. From then on the first engine's gate refuses the network, too.
    let line = format!("{by_second} delete network/{network} --cascade --yes -o json");
    let id = text(&stage.gone(&line).ok().json()["id"]);
    for gate in &gates {
        let status = client.add_port(gate, &network);
        assert!([404, 409].contains(&status), "{status}");
    }
    stage.await_writes(4);

    server.kill();
    for gate in &gates {
        wait_for("the gate answers 503", || {
            let status = client.add_port(gate, &network);
            assert!([404, 409, 503].contains(&status), "{status}");
            status == 503
        });
        let read = client.ask("GET", gate, &format!("networks/{network}"), &Value::Null);
        assert_eq!(read, 503);
    }
    let sent = stage.writes().len();
    server.restart();
    for gate in &gates {
        wait_for("the gate answers again", || {
            let status = client.add_port(gate, &network);
            assert!([404, 409, 503].contains(&status), "{status}");
            status != 503
        });
    }
    stage.await_writes(sent + 1);

    first.kill();
    let show = format!("{by_second} show {id} -o json");
    let mut deletion = Value::Null;
    wait_for("the end of the deletion", || {
        deletion = stage.gone(&show).ok().json();
        deletion["state"] == "gone"
    });
    assert_eq!(
        deletion["counts"]["gone"], deletion["counts"]["total"],
        "{deletion}"
    );
    assert_eq!(client.add_port(&gates[1], &network), 404);
    assert!(!stage.ids("networks").contains(&network));
    assert!(
        stage
            .list("ports")
            .iter()
            .all(|port| port["name"] != "late")
    );
    second.stop().ok();
}
