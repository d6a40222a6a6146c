//! Native resources that refer to a network of a real cloud, and are deleted or changed with it.
use serde_json::{Value, json};

use crate::bed::Bed;

const SETTINGS: &str = "
[deployment]
name = 'inventory-1'
service = 'inventory'
region = 'RegionOne'
";

const KINDS: &str = "
service = 'inventory'
imports = ['network']
[kind.cabinet.native.fields]
networks = {}
[[kind.cabinet.reference]]
to = 'network'
field = 'networks[]'
on_delete = 'unset'
says = 'is wired to'
[kind.bill.native.fields]
network = {}
[[kind.bill.reference]]
to = 'network'
field = 'network'
on_delete = 'cascade'
says = 'is for'
[kind.lease.native.fields]
network = {}
[[kind.lease.reference]]
to = 'network'
field = 'network'
on_delete = 'block'
says = 'holds'
";

impl Bed {
    /// Configures a deployment with native kinds that refer to networks.
    fn write_kinds(&self) {
        std::fs::create_dir_all(self.path("config/gone/kinds")).unwrap();
        self.configure(SETTINGS);
        std::fs::write(self.path("config/gone/kinds/inventory.toml"), KINDS).unwrap();
    }

    /// Calls the engine's API. Returns status and body.
    fn engine_api(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = reqwest::Client::builder()
                .unix_socket(self.path("state/gone/gone.sock"))
                .build()
                .unwrap();
            let url = format!("http://localhost/api/v1/resources/{path}");
            let method = method.parse().unwrap();
            let call = client.request(method, url).json(body);
            let answer = call.send().await.unwrap();
            let status = answer.status().as_u16();
            (status, answer.json().await.unwrap_or_default())
        })
    }
}

#[test]
#[ignore = "needs the test bed"]
fn testbed_g02_g06_native_resources_block_cascade_or_lose_their_reference_to_a_network() {
    let shape = "--networks 2 --ports 2 --trunks 0 --groups 1";
    let bed = Bed::seeded("RegionOne", shape);
    bed.write_kinds();
    bed.gone("check kinds").ok();
    let _engine = bed.start_engine("--cloud testbed");
    let [goes, stays] = [0, 1].map(|n| format!("{}@testbed/RegionOne", bed.networks[n]));
    for (kind, fields) in [
        ("cabinet", json!({"id": "c1", "networks": [goes, stays]})),
        ("bill", json!({"id": "b1", "network": goes})),
        ("bill", json!({"id": "b2", "network": stays})),
        ("lease", json!({"id": "l1", "network": goes})),
    ] {
        let (status, answer) = bed.engine_api("POST", kind, &fields);
        assert_eq!(status, 201, "{answer}");
    }
    let network = format!("network/{}", bed.networks[0]);
    let line = format!("--cloud testbed delete {network} --cascade --yes --wait=2m -o json");

    let before = bed.holdings();
    bed.gone(&line).ends_with(6).says(&["lease", "l1"]);
    assert_eq!(bed.holdings().0, before.0);
    bed.gone("--cloud testbed delete lease/l1 --yes")
        .ends_with(2)
        .says(&["lease is kept at inventory-1, which is not a cloud"]);
    bed.gone("--cloud testbed delete lease/l1@inventory-1 --yes --wait=2m")
        .ok();

    bed.gone(&line).ok();
    let left = bed.api.rows("networks", &format!("id={}", bed.networks[0]));
    assert_eq!(left, [json!(null); 0]);
    let (_, cabinet) = bed.engine_api("GET", "cabinet/c1", &Value::Null);
    assert_eq!(cabinet["networks"], json!([stays]), "{cabinet}");
    assert_eq!(bed.engine_api("GET", "bill/b1", &Value::Null).0, 404);
    assert_eq!(bed.engine_api("GET", "bill/b2", &Value::Null).0, 200);
}
