//! What the engine promises, one test a rule.

use super::harness::*;
use serde_json::json;

#[test]
fn n06_a_seeded_network_goes_with_its_cascade_and_the_rest_stays() {
    paused(async {
        let bench = Bench::new(1);
        let made = bench.seed(json!({ "region": "RegionOne", "networks": 3, "ports_per_network": 20, "routers": 1, "floating_ips": 2, "trunks": 2 }));
        println!("{made:#}");
        let networks = bench.ids("networks");
        let target = made["ids"]["networks"][0]
            .as_str()
            .unwrap_or_else(|| made["networks"][0].as_str().unwrap())
            .to_owned();
        bench
            .run(async |client| {
                let id = client.delete("network", &target).await;
                let deletion = client.gone(&id).await;
                println!("{deletion:#?}");
            })
            .await
            .unwrap();
        let left: Vec<String> = networks.into_iter().filter(|id| *id != target).collect();
        assert_eq!(bench.ids("networks"), left);
        for call in bench.calls() {
            println!("{call:?}");
        }
    });
}
