//! Servers, volumes, snapshots and backups, whose deletes take a while: the order of their deletes, crashes, and
//! hypervisors and storage that misbehave.

use std::time::Duration;

use gone::domain::model::{Action, DeletionState, PlanOptions, Step, StepState};
use serde_json::{Value, json};

use super::client::Client;
use super::harness::{Bench, Login, SentRequest, paused, with_engine};

/// The lists of the resources that are left of a project with servers: path and key of each.
const LISTS: [(&str, &str); 4] = [
    ("/v2.1/servers/detail", "servers"),
    ("/v3/volumes/detail", "volumes"),
    ("/v3/snapshots/detail", "snapshots"),
    ("/v3/backups/detail", "backups"),
];

/// A server of the project `demo`, and its volume.
struct Machine {
    server: String,
    volume: String,
}

impl Bench {
    /// Makes a call as the member in the project `demo`. The call must succeed. Returns the body.
    fn call_as_member(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.api_as("demo", method, path, body);
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Creates a resource as the member in the project `demo`. Returns its id.
    fn create_as_member(&self, path: &str, kind: &str, fields: Value) -> String {
        let answer = self.call_as_member("POST", path, json!({ kind: fields }));
        answer[kind]["id"].as_str().unwrap().to_owned()
    }

    /// Creates a network with a subnet, and a flavor. Returns the fields of a server that uses them.
    fn create_network_for_servers(&self) -> Value {
        let flavor = json!({ "flavor": { "name": "small", "ram": 1, "vcpus": 1, "disk": 1 } });
        let flavor = self.call_ok("POST", "/v2.1/flavors", flavor);
        let network =
            self.create_as_member("/v2.0/networks", "network", json!({ "name": "inside" }));
        let subnet = json!({ "network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24" });
        self.create_as_member("/v2.0/subnets", "subnet", subnet);
        json!({ "name": "one", "flavorRef": flavor["flavor"]["id"], "networks": [{ "uuid": network }] })
    }

    /// Creates a network with a subnet, and servers of these names on it, each with a volume.
    async fn create_machines<const N: usize>(&self, names: [&str; N]) -> [Machine; N] {
        let mut server = self.create_network_for_servers();
        let machines = names.map(|name| Machine {
            server: {
                server["name"] = json!(name);
                self.create_as_member("/v2.1/servers", "server", server.clone())
            },
            volume: self.create_as_member(
                "/v3/volumes",
                "volume",
                json!({ "name": name, "size": 1 }),
            ),
        });
        wait_for_services().await;
        for Machine { server, volume } in &machines {
            let path = format!("/v2.1/servers/{server}/os-volume_attachments");
            let wanted = json!({ "volumeAttachment": { "volumeId": volume } });
            self.call_as_member("POST", &path, wanted);
        }
        machines
    }

    /// Creates a snapshot of a volume, and a backup with an incremental one on top.
    async fn create_copies(&self, volume: &str) {
        let copy = json!({ "volume_id": volume });
        self.create_as_member("/v3/snapshots", "snapshot", copy);
        for incremental in [false, true] {
            let backup = json!({ "volume_id": volume, "incremental": incremental, "force": true });
            self.create_as_member("/v3/backups", "backup", backup);
            wait_for_services().await;
        }
    }

    /// Returns the servers, volumes, snapshots and backups that are left, each as the key of its list and its row.
    fn remaining_rows(&self) -> Vec<String> {
        let rows = LISTS.iter().flat_map(|(path, key)| {
            let (_, rows) = self.api("GET", &format!("{path}?all_tenants=1"), Value::Null);
            let rows = rows[key].as_array().unwrap().clone();
            rows.into_iter().map(move |row| format!("{key} {row}"))
        });
        rows.collect()
    }

    fn act_on_server(&self, server: &str, action: Value) {
        let path = format!("/v2.1/servers/{server}/action");
        self.call_ok("POST", &path, action);
    }

    /// Asserts that no call was sent too early: Cinder answers such a call with a 400.
    fn assert_no_premature_call(&self) {
        let writes = self.writes();
        let early = writes.iter().filter(|sent| sent.status == Some(400));
        let early: Vec<&SentRequest> = early.collect();
        assert!(early.is_empty(), "{early:#?}");
    }
}

/// Waits two seconds, in which the services end the changes that the test has started.
async fn wait_for_services() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn story_8_n20_a_project_of_servers_and_volumes_is_emptied_without_a_premature_call() {
    for login in [Login::Member, Login::Admin] {
        let mut bench = Bench::new(1);
        bench.login = login;
        let [first, _] = bench.create_machines(["first", "second"]).await;
        bench.create_copies(&first.volume).await;
        assert_eq!(bench.remaining_rows().len(), 7);
        bench.delete_until_gone("project", "demo").await;
        assert_eq!(bench.remaining_rows(), Vec::<String>::new());
        bench.assert_no_premature_call();
        let ports = bench.rows("ports");
        assert!(ports.is_empty(), "{ports:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn n04_the_servers_of_a_network_are_deleted_only_if_the_caller_asks() {
    for (login, with_servers) in [
        (Login::Member, true),
        (Login::Admin, true),
        (Login::Admin, false),
    ] {
        let mut bench = Bench::new(1);
        bench.login = login;
        let [machine] = bench.create_machines(["only"]).await;
        let options = PlanOptions {
            cascade: true,
            with_servers,
            ..PlanOptions::default()
        };
        with_engine(&bench, async |client| {
            let id = client.delete_with("network", "inside", options).await;
            client.until_gone(&id).await;
        })
        .await;
        let left = bench.remaining_rows();
        assert_eq!(left.len(), if with_servers { 1 } else { 2 }, "{left:?}");
        assert!(left.iter().any(|row| row.contains(&machine.volume)));
        let network = bench.rows("networks");
        assert!(network.is_empty(), "{network:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn p04_a_locked_server_refuses_the_deletion_of_its_project_before_any_write() {
    let bench = Bench::new(1);
    let [open, locked] = bench.create_machines(["open", "locked"]).await;
    let lock = json!({ "lock": { "locked_reason": "ask Eve" } });
    bench.act_on_server(&locked.server, lock);
    with_engine(&bench, async |client| {
        let id = client.delete("project", "demo").await;
        client.until_refused(&id).await;
        assert!(bench.writes_to(&open.server).is_empty());
        bench.act_on_server(&locked.server, json!({ "unlock": null }));
        client.delete_until_gone("project", "demo").await;
    })
    .await;
    assert_eq!(bench.remaining_rows(), Vec::<String>::new());
}

/// Asserts that the hanging server delays its own volume and nothing of the other server.
async fn assert_only_the_hanging_server_waits(client: &Client, id: &str, machines: &[Machine; 2]) {
    let [well, hanging] = machines;
    for gone in [&well.server, &well.volume] {
        client
            .until_any_step(id, |step| {
                step.resource.key.id == **gone && step.state == StepState::Gone
            })
            .await;
    }
    let steps = client.steps(id).await;
    let expected = [&hanging.server, &hanging.volume];
    let is_delayed = |step: &&Step| expected.contains(&&step.resource.key.id);
    let mut delayed = steps.iter().filter(is_delayed);
    assert!(delayed.all(|step| step.state != StepState::Gone));
}

#[tokio::test(start_paused = true)]
async fn i12_n12_a_hanging_server_delays_only_its_own_volume_and_ends_stuck() {
    let bench = Bench::new(1);
    let machines = bench.create_machines(["well", "hanging"]).await;
    let hanging = &machines[1].server;
    bench.faults(
        json!([{ "match": { "method": "DELETE", "kind": "server", "id": hanging },
        "action": { "ends_in": "never" } }]),
    );
    with_engine(&bench, async |client| {
        let id = client.delete("project", "demo").await;
        assert_only_the_hanging_server_waits(&client, &id, &machines).await;
        client.until_state(&id, DeletionState::Stuck).await;
        let step = client.step_of(&id, hanging).await;
        assert_eq!(step.state, StepState::Stuck);
        // An operator fences the host, and sets the state of the server in Nova.
        bench.faults(json!([]));
        let reset = json!({ "os-resetState": { "state": "error" } });
        bench.act_on_server(hanging, reset);
        client.retry(&id).await;
        client.until_state(&id, DeletionState::Gone).await;
    })
    .await;
    assert_eq!(bench.remaining_rows(), Vec::<String>::new());
    bench.assert_no_premature_call();
}

#[tokio::test(start_paused = true)]
async fn i06_a_server_that_ends_in_error_and_a_volume_that_is_put_back_are_deleted_later() {
    let bench = Bench::new(1);
    bench.create_machines(["only"]).await;
    let once = |kind: &str, end: &str| {
        json!({ "match": { "method": "DELETE", "kind": kind }, "times": 2,
            "action": { "ends_in": end } })
    };
    bench.faults(json!([once("server", "error"), once("volume", "put_back")]));
    with_engine(&bench, async |client| {
        let id = client.delete_until_gone("project", "demo").await.id;
        let server = client.step(&id, "server").await;
        assert!(server.attempts > 1, "{server:?}");
    })
    .await;
    assert_eq!(bench.remaining_rows(), Vec::<String>::new());
    bench.assert_no_premature_call();
}

/// Deletes an attached volume, with one crash. Returns false if the deletion ended before the crash.
fn detach_with_crash(crash: impl Fn(&Bench)) -> bool {
    paused(async {
        let bench = Bench::new(1);
        let [machine] = bench.create_machines(["only"]).await;
        bench.create_copies(&machine.volume).await;
        crash(&bench);
        let first = bench
            .run(async |client| {
                client.delete_until_gone("volume", &machine.volume).await;
            })
            .await;
        bench.crash.cancel();
        with_engine(&bench, async |client| {
            let known = client.deletions(Vec::new(), None).await;
            let id = match known.first() {
                Some(deletion) => deletion.id.clone(),
                None => client.delete("volume", &machine.volume).await,
            };
            client.until_gone(&id).await;
        })
        .await;
        let (_, server) = bench.api(
            "GET",
            &format!("/v2.1/servers/{}", machine.server),
            Value::Null,
        );
        assert_eq!(server["server"]["status"], "ACTIVE");
        let left = bench.remaining_rows();
        // The server and the two backups are left.
        assert_eq!(left.len(), 3, "{left:?}");
        bench.assert_no_premature_call();
        let path = format!("os-volume_attachments/{}", machine.volume);
        let detached = bench.writes_to(&path);
        assert_eq!(detached.len(), 1, "{detached:#?}");
        first.is_none()
    })
}

#[test]
fn i03_a_crash_during_the_deletion_of_an_attached_volume_repeats_no_detach() {
    let mut crashes = 0;
    while detach_with_crash(|bench| bench.crash.at_write(crashes + 1)) {
        crashes += 1;
    }
    assert!(crashes > 5, "{crashes}");
}

impl Bench {
    /// Creates this many servers, each with a port and a volume, and as many other volumes, each with a snapshot and
    /// every second one with a backup.
    async fn create_large_project(&self, servers: usize) {
        let server = self.create_network_for_servers();
        let create_many = |path: &str, kind: &str, fields: &Value, count: usize| -> Vec<String> {
            (0..count)
                .map(|_| self.create_as_member(path, kind, fields.clone()))
                .collect()
        };
        let volume = json!({ "size": 1 });
        let servers = create_many("/v2.1/servers", "server", &server, servers);
        let in_use = create_many("/v3/volumes", "volume", &volume, servers.len());
        let copied = create_many("/v3/volumes", "volume", &volume, servers.len());
        wait_for_services().await;
        for (server, volume) in servers.iter().zip(&in_use) {
            let path = format!("/v2.1/servers/{server}/os-volume_attachments");
            let wanted = json!({ "volumeAttachment": { "volumeId": volume } });
            self.call_as_member("POST", &path, wanted);
        }
        for (nth, volume) in copied.iter().enumerate() {
            let copy = json!({ "volume_id": volume });
            self.create_as_member("/v3/snapshots", "snapshot", copy.clone());
            if nth % 2 == 0 {
                self.create_as_member("/v3/backups", "backup", copy);
            }
        }
        wait_for_services().await;
    }
}

/// Returns the reads of a plan of a project with this many servers, each as its path and the names of its filters.
fn reads_of_a_plan(login: Login, servers: usize) -> Vec<String> {
    paused(async {
        let mut bench = Bench::new(1);
        bench.login = login;
        bench.create_large_project(servers).await;
        with_engine(&bench, async |client| {
            let plan = client.plan("project", "demo").await;
            assert_eq!(plan.refused, []);
            let steps = |kind: &str| {
                // The plan of a member's login also has an `Enable` step for each port of a server, which clears its
                // `device_owner`. These are not counted.
                let steps = plan
                    .steps
                    .iter()
                    .filter(|step| step.action != Action::Enable);
                steps.filter(|step| step.kind.as_str() == kind).count()
            };
            let planned = ["server", "port", "volume", "volume_snapshot", "backup"].map(steps);
            let wanted = [servers, servers, 2 * servers, servers, servers.div_ceil(2)];
            assert_eq!(planned, wanted);
        })
        .await;
        let sent = bench.sent().into_iter();
        let mut reads: Vec<String> = sent
            .filter(|it| it.method == "GET")
            .map(|it| path_and_filter_names(&it))
            .collect();
        reads.sort();
        reads
    })
}

/// Returns the path of a request, and the names of its parameters.
fn path_and_filter_names(sent: &SentRequest) -> String {
    let (path, query) = sent.path.split_once('?').unwrap_or((&sent.path, ""));
    let names = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut names: Vec<&str> = names.map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    format!("{path}?{}", names.join("&"))
}

#[test]
fn n14_the_reads_of_a_projects_plan_do_not_grow_with_its_servers_and_volumes() {
    for login in [Login::Admin, Login::Member] {
        let few = reads_of_a_plan(login, 5);
        let many = reads_of_a_plan(login, 20);
        assert_eq!(few, many, "{login:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn n14_a_volume_that_is_being_deleted_is_observed_while_the_delete_of_a_server_hangs() {
    let bench = Bench::new(1);
    let [hanging] = bench.create_machines(["hanging"]).await;
    let free = bench.create_as_member(
        "/v3/volumes",
        "volume",
        json!({ "name": "free", "size": 1 }),
    );
    wait_for_services().await;
    let hangs = json!({ "method": "DELETE", "id": hanging.server });
    bench.faults(json!([{ "match": hangs, "times": 1, "action": { "hang": true } }]));
    bench.delete_until_gone("project", "demo").await;
    let sent = bench.sent();
    let deleted = bench.writes_to(&free)[0].at;
    let observations = sent.iter().filter(|it| it.is_read() && it.at > deleted);
    let mut observations = observations.filter(|it| it.path.contains("/v3/volumes"));
    let first = observations.next().unwrap().at - deleted;
    assert!(first.num_milliseconds() <= 2_500, "{first}");
}

#[tokio::test(start_paused = true)]
async fn n14_servers_being_deleted_are_listed_every_two_seconds_at_most_and_read_once_each() {
    let bench = Bench::new(1);
    bench.create_large_project(8).await;
    let slow = json!({ "ends_in": "done", "for_s": 30 });
    bench.faults(json!([{ "match": { "method": "DELETE", "kind": "server" }, "action": slow }]));
    bench.delete_until_gone("project", "demo").await;
    let sent = bench.sent();
    let first_write = sent.iter().position(SentRequest::is_write).unwrap();
    let observations = sent[first_write..].iter().filter(|it| it.is_read());
    let observations = observations.filter(|it| it.path.starts_with("/v2.1/servers"));
    let (lists, reads): (Vec<&SentRequest>, Vec<&SentRequest>) =
        observations.partition(|it| it.path.contains("/detail"));
    assert!(
        lists.len() > 5 && lists.len() <= 30 / 2 + 2,
        "{} lists",
        lists.len()
    );
    for pair in lists.windows(2) {
        let between = pair[1].at - pair[0].at;
        assert!(between >= chrono::TimeDelta::seconds(2), "{between}");
    }
    assert_eq!(reads.len(), 8, "{reads:#?}");
}
