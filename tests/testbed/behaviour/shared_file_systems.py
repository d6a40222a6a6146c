"""Provokes the answers of Manila that BEHAVIOUR.md lists."""
import concurrent.futures as futures
import time

from calls import call, cloud, demo, head, misbehave, ok, say, short, watch

EXPERIMENTAL = {"X_OpenStack_Manila_API_Experimental": "true"}


def manila(method, path, body=None, note="", **more):
    return call(method, "shared-file-system", path, body, note=note, **more)


def make(path, kind, who=demo, **fields):
    return ok(manila("POST", path, {kind: fields}, show=False, who=who))[kind]["id"]


# The key of a row, by the collection.
KEYS = {"shares": "share", "snapshots": "snapshot", "share-replicas": "share_replica", "share-groups": "share_group",
        "share-group-snapshots": "share_group_snapshot", "share-networks": "share_network", "share-servers": "share_server",
        "share-access-rules": "access", "share-backups": "share_backup"}


def get(collection, thing, who=cloud):
    return manila("GET", f"/{collection}/{thing}", show=False, who=who, **EXPERIMENTAL)


def state(answer):
    row = next(iter(answer.json().values()))
    return row.get("status", row.get("state"))


def follow(collection, thing, *until, limit=12):
    return watch(lambda: get(collection, thing), lambda answer: f"{KEYS[collection]} {state(answer)}",
                 lambda answer: state(answer) in until, limit)


def wait(collection, thing):
    """Waits until the resource is created."""
    while state(get(collection, thing)) not in ("available", "active", "error"):
        time.sleep(0.1)
    return thing


def share(name="s", who=demo, ready=True, **fields):
    made = make("/shares", "share", who, **{"name": name, "size": 1, "share_proto": "NFS", "share_type": PLAIN, **fields})
    return wait("shares", made) if ready else made


def snapshot(share, name="n"):
    return wait("snapshots", make("/snapshots", "snapshot", share_id=share, name=name))


def delete(collection, thing, note="", query="", who=demo, **more):
    return manila("DELETE", f"/{collection}/{thing}{query}", note=note, who=who, **more)


def act(collection, thing, body, note="", who=demo, **more):
    return manila("POST", f"/{collection}/{thing}/action", body, note, who=who, **more)


def share_type(name, servers, **specs):
    return make("/types", "share_type", cloud, name=name, extra_specs={
        "driver_handles_share_servers": servers, "snapshot_support": True, "create_share_from_snapshot_support": True, **specs})


PLAIN = share_type("plain", False)
COPIED = share_type("copied", False, replication_type="readable")
SERVED = share_type("served", True)

head("versions")
for note, version in (("a version that is too new", "2.999"), ("the oldest", "2.0")):
    answer = manila("GET", "/shares/detail", note=note, who=demo, version=version, cut=300)
    say(f"    X-OpenStack-Manila-API-Version: {answer.headers.get('X-OpenStack-Manila-API-Version')}")
answer = call("GET", "shared-file-system", "/shares/detail", who=demo, version="2.0", note="the header of the other services", cut=300,
              OpenStack_API_Version="shared-file-system 2.99")
say(f"    X-OpenStack-Manila-API-Version: {answer.headers.get('X-OpenStack-Manila-API-Version')}")
manila("GET", "/nosuch", note="no such collection", who=demo)
manila("GET", f"/{demo.current_project_id}/shares", note="with the project in the path", who=demo, cut=200)
manila("GET", f"/{cloud.current_project_id}/shares", note="with another's project in the path", who=demo, cut=200)

head("shares")
s = share()
delete("shares", s, "as a member")
delete("shares", s, "again meanwhile")
follow("shares", s)
delete("shares", s, "again, gone")
manila("GET", f"/shares/{s}", who=demo, note="gone")
delete("shares", "nosuch", "no UUID")
manila("DELETE", "/shares", note="the collection", who=demo)
s = share()
with futures.ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(lambda _: delete("shares", s, show=False).status_code, range(8)))
say(f"DELETE 8 times at once\n    -> {sorted(answers)}")
s = share(who=cloud)
delete("shares", s, "another project's, as a member")
delete("shares", s, "as an admin", who=cloud)
s = share()
delete("shares", s, "another project's, as an admin", who=cloud)
follow("shares", s)
misbehave("manila", "create-slow", "slow")
s = share("slow", ready=False)
delete("shares", s, "creating")
follow("shares", s, "available")
misbehave("manila", "create-fails", "failing")
s = share("failing")
say(f"    share {state(get('shares', s))}")
misbehave("manila", "well")
delete("shares", s, "in error")
follow("shares", s)

head("lists")
mine, public = share("mine"), share("public", who=cloud, is_public=True)
for who, note, query in ((demo, "as a member", ""), (demo, "as a member, with public ones", "?is_public=true"),
                         (demo, "as a member, of another project", f"?project_id={cloud.current_project_id}"),
                         (cloud, "as an admin", ""), (cloud, "as an admin, all_tenants", "?all_tenants=1"),
                         (cloud, "as an admin, a project's", f"?all_tenants=1&project_id={demo.current_project_id}"),
                         (cloud, "as an admin, a project's without all_tenants", f"?project_id={demo.current_project_id}"),
                         (cloud, "an unknown filter", "?all_tenants=1&nosuch=1"), (demo, "id", f"?id={mine}"),
                         (demo, "a name", "?name=mine")):
    rows = ok(manila("GET", f"/shares{query}", show=False, who=who))["shares"]
    say(f"GET /shares{query}, {note}\n    -> {sorted(row['name'] for row in rows)}")
manila("GET", "/shares?limit=1", note="a page", who=demo, cut=700)
manila("GET", "/shares?limit=1&offset=1", note="the next page", who=demo, cut=300)
manila("GET", f"/shares?limit=1&marker={mine}", note="by the marker of the link", who=demo, cut=300)
copied = share("copied", share_type=COPIED)
wait("share-replicas", make("/share-replicas", "share_replica", share_id=copied))
for query in ("", "?limit=1", "?limit=1&offset=1", "?limit=1&offset=2", "?limit=2"):
    rows = ok(manila("GET", f"/shares{query}", show=False, who=demo))["shares"]
    say(f"GET /shares{query}, one with a replica\n    -> {[row['name'] for row in rows]}")
for each in ok(manila("GET", f"/share-replicas/detail?share_id={copied}", show=False, who=demo))["share_replicas"]:
    if each["replica_state"] != "active":
        delete("share-replicas", each["id"], show=False)
        follow("share-replicas", each["id"])
delete("shares", public, "public share of another project, as a member")
for thing in (mine, public, copied):
    delete("shares", thing, show=False, who=cloud)

head("stuck shares")
s = share()
for stuck in ("creating", "deleting", "error_deleting", "migrating", "server_migrating"):
    act("shares", s, {"reset_status": {"status": stuck}}, show=False, who=cloud)
    plain = delete("shares", s, show=False)
    say(f"    reset to {stuck}: DELETE -> {plain.status_code}")
    forced = act("shares", s, {"force_delete": None}, show=False, who=cloud)
    say(f"    force_delete -> {forced.status_code}")
    follow("shares", s)
    s = share()
act("shares", s, {"force_delete": None}, "force_delete, as a member")
act("shares", s, {"reset_status": {"status": "error"}}, "reset_status, as a member")

head("a storage that refuses, is slow, or hangs")
misbehave("manila", "delete-fails", "failing")
s = share("failing")
delete("shares", s, "the driver raises")
follow("shares", s, "error_deleting")
for each in ok(manila("GET", f"/messages?resource_id={s}", show=False, who=demo))["messages"]:
    say(f"    message {each['action_id']}: {each['user_message']}")
delete("shares", s, "again")
act("shares", s, {"force_delete": None}, "force_delete", who=cloud)
follow("shares", s, "error_deleting")
s = share("failing")
delete("shares", s, "another", show=False)
follow("shares", s, "error_deleting")
act("shares", s, {"reset_status": {"status": "error"}}, "reset_status", who=cloud)
misbehave("manila", "well")
delete("shares", s, "again, the driver is well")
follow("shares", s)
misbehave("manila", "delete-slow", "slow")
s = share("slow")
delete("shares", s, "slow")
delete("shares", s, "again meanwhile")
follow("shares", s)
misbehave("manila", "delete-hangs", "hanging")
s = share("hanging")
delete("shares", s, "the driver hangs")
follow("shares", s, limit=4)
act("shares", s, {"force_delete": None}, "force_delete meanwhile", who=cloud)
misbehave("manila", "well")
follow("shares", s)

head("snapshots, access rules")
s = share()
n = snapshot(s)
delete("shares", s, "share with a snapshot")
act("shares", s, {"force_delete": None}, "force_delete of a share with a snapshot", who=cloud)
delete("snapshots", n, "snapshot")
delete("snapshots", n, "again meanwhile")
follow("snapshots", n)
delete("snapshots", n, "again, gone")
manila("GET", f"/snapshots/{n}", who=demo, note="gone")
n = snapshot(s)
t = share("child", snapshot_id=n)
delete("snapshots", n, "snapshot that a share was made from")
follow("snapshots", n)
misbehave("manila", "delete-fails", "failing")
n = snapshot(s, "failing")
delete("snapshots", n, "the driver raises")
follow("snapshots", n, "error_deleting")
delete("snapshots", n, "again")
delete("shares", s, "its share")
misbehave("manila", "well")
act("snapshots", n, {"force_delete": None}, "force_delete", who=cloud)
follow("snapshots", n, "error_deleting")
a = ok(act("shares", s, {"allow_access": {"access_type": "ip", "access_to": "192.0.2.1", "access_level": "rw"}}, show=False))["access"]["id"]
follow("share-access-rules", a, "active")
manila("GET", f"/share-access-rules?share_id={s}", who=demo, note="rules of a share")
manila("GET", f"/share-access-rules?share_id={s}&limit=1", who=demo, note="rules of a share, with a limit", cut=200)
manila("GET", "/share-access-rules", who=demo, note="rules of no share")
act("shares", s, {"deny_access": {"access_id": a}}, "deny_access")
act("shares", s, {"deny_access": {"access_id": a}}, "again meanwhile")
follow("share-access-rules", a)
manila("GET", f"/share-access-rules/{a}", who=demo, note="gone")
act("shares", s, {"deny_access": {"access_id": a}}, "again, gone")
a = ok(act("shares", s, {"allow_access": {"access_type": "ip", "access_to": "192.0.2.1", "access_level": "rw"}}, show=False))["access"]["id"]
follow("share-access-rules", a, "active")
delete("shares", s, "share with an access rule")
follow("shares", s)
manila("GET", f"/share-access-rules/{a}", who=demo, note="its rule")
manila("GET", f"/share-access-rules?share_id={s}", who=demo, note="rules of a share that is gone")
act("shares", s, {"deny_access": {"access_id": a}}, "deny_access, of a share that is gone")
delete("shares", t, show=False)

head("locks")
s = share()
k = make("/resource-locks", "resource_lock", resource_id=s, resource_type="share", resource_action="delete", lock_reason="keep it")
manila("GET", f"/resource-locks/{k}", who=demo, note="a lock")
delete("shares", s, "locked, as a member")
delete("shares", s, "locked, as an admin", who=cloud)
act("shares", s, {"force_delete": None}, "locked, force_delete", who=cloud)
act("shares", s, {"soft_delete": None}, "locked, soft_delete")
for who, note, query in ((demo, "as a member", ""), (cloud, "as an admin", ""), (cloud, "as an admin, all_projects", "?all_projects=1"),
                         (cloud, "as an admin, all_tenants", "?all_tenants=1"), (demo, "of a resource", f"?resource_id={s}")):
    answer = manila("GET", f"/resource-locks{query}", show=False, who=who)
    say(f"GET /resource-locks{query}, {note}\n    -> {answer.status_code} {len(answer.json().get('resource_locks', []))} rows")
manila("DELETE", f"/resource-locks/{k}", who=demo, note="the lock")
manila("DELETE", f"/resource-locks/{k}", who=demo, note="again")
k = make("/resource-locks", "resource_lock", cloud, resource_id=s, resource_type="share", resource_action="delete")
manila("DELETE", f"/resource-locks/{k}", who=demo, note="lock of an admin, as a member")
manila("DELETE", f"/resource-locks/{k}", who=cloud, note="the same, as an admin")
a = ok(act("shares", s, {"allow_access": {"access_type": "ip", "access_to": "192.0.2.1", "access_level": "rw", "lock_deletion": True,
                                          "lock_visibility": True}}, show=False))["access"]["id"]
follow("share-access-rules", a, "active")
act("shares", s, {"deny_access": {"access_id": a}}, "deny_access of a locked rule, as an admin", who=cloud)
manila("GET", f"/share-access-rules?share_id={s}", who=cloud, note="a rule whose visibility is locked, as an admin")
delete("shares", s, "share with a locked rule")
for each in ok(manila("GET", "/resource-locks", show=False, who=demo))["resource_locks"]:
    say(f"    lock {each['resource_action']} of a {each['resource_type']}: {each['lock_reason']}")
    manila("DELETE", f"/resource-locks/{each['id']}", who=demo, show=False)
delete("shares", s, "the share")
follow("shares", s)

head("the recycle bin, transfers")
s = share()
act("shares", s, {"soft_delete": None}, "soft_delete")
for query in ("", "?is_soft_deleted=true"):
    rows = ok(manila("GET", f"/shares/detail{query}", show=False, who=demo))["shares"]
    say(f"GET /shares/detail{query}\n    -> {[(row['name'], row['status'], row['is_soft_deleted']) for row in rows]}")
rows = ok(manila("GET", "/shares/detail?is_soft_deleted=true", show=False, who=demo, version="2.68"))["shares"]
say(f"GET /shares/detail?is_soft_deleted=true, 2.68\n    -> {[row['name'] for row in rows]}")
delete("shares", s, "share in the recycle bin")
follow("shares", s)
s = share()
t = make("/share-transfers", "transfer", share_id=s, name="t")
manila("GET", f"/share-transfers/{t}", who=demo, note="a transfer", cut=400)
delete("shares", s, "awaiting a transfer")
follow("shares", s, "awaiting_transfer", limit=1)
for who, note, query in ((demo, "as a member", ""), (cloud, "as an admin", ""), (cloud, "as an admin, all_tenants", "?all_tenants=1")):
    answer = manila("GET", f"/share-transfers/detail{query}", show=False, who=who)
    say(f"GET /share-transfers/detail{query}, {note}\n    -> {answer.status_code} {len(answer.json()['transfers'])} rows")
manila("DELETE", f"/share-transfers/{t}", who=demo, note="the transfer")
manila("DELETE", f"/share-transfers/{t}", who=demo, note="again")
delete("shares", s, "its share")
follow("shares", s)

head("replicas")
s = share(share_type=COPIED)
r = wait("share-replicas", make("/share-replicas", "share_replica", share_id=s))
for each in ok(manila("GET", f"/share-replicas/detail?share_id={s}", show=False, who=demo))["share_replicas"]:
    say(f"    {short(each['id'])}: {each['status']}, {each['replica_state']}, fields {sorted(each)}")
first = next(each["id"] for each in ok(manila("GET", f"/share-replicas/detail?share_id={s}", show=False, who=demo))["share_replicas"]
             if each["replica_state"] == "active")
delete("shares", s, "share with a replica")
delete("share-replicas", first, "the active replica")
delete("share-replicas", r, "the other")
delete("share-replicas", r, "again meanwhile")
follow("share-replicas", r)
delete("share-replicas", r, "again, gone")
manila("GET", f"/share-replicas/{r}", who=demo, note="gone")
rows = ok(manila("GET", "/share-replicas/detail", show=False, who=demo))["share_replicas"]
say(f"    a plain share is among the replicas: {any(row['share_id'] == share() for row in rows)}")
delete("shares", s, "the share")
follow("shares", s)
misbehave("manila", "delete-fails", "failing")
s = share("failing", share_type=COPIED)
r = wait("share-replicas", make("/share-replicas", "share_replica", share_id=s))
delete("share-replicas", r, "replica that the driver refuses to delete")
follow("share-replicas", r, "error_deleting", "error", limit=4)
misbehave("manila", "well")
act("share-replicas", r, {"force_delete": None}, "force_delete", who=cloud)
follow("share-replicas", r)

head("groups")
gt = make("/share-group-types", "share_group_type", cloud, name="gt", share_types=[PLAIN], group_specs={"consistent_snapshot_support": "pool"})
g = wait("share-groups", make("/share-groups", "share_group", name="g", share_group_type_id=gt, share_types=[PLAIN]))
s = share(share_group_id=g)
delete("shares", s, "share in a group")
delete("shares", s, "share in a group, with an empty parameter", "?share_group_id=")
delete("share-groups", g, "group with a share")
gs = wait("share-group-snapshots", make("/share-group-snapshots", "share_group_snapshot", name="gs", share_group_id=g))
manila("GET", f"/share-group-snapshots/{gs}", who=demo, note="a group snapshot")
for each in ok(manila("GET", f"/snapshots/detail?share_id={s}", show=False, who=demo))["snapshots"]:
    say(f"    snapshot {each['name']} {each['status']}")
delete("shares", s, "share in a group snapshot", f"?share_group_id={g}")
delete("share-groups", g, "group with a group snapshot")
delete("share-group-snapshots", gs, "group snapshot")
delete("share-group-snapshots", gs, "again meanwhile")
follow("share-group-snapshots", gs)
delete("share-group-snapshots", gs, "again, gone")
delete("shares", s, "share in a group, by its group", f"?share_group_id={g}")
follow("shares", s)
s = share()
delete("shares", s, "share in no group, with an empty parameter", "?share_group_id=")
follow("shares", s)
delete("share-groups", g, "group")
delete("share-groups", g, "again meanwhile")
follow("share-groups", g)
delete("share-groups", g, "again, gone")

head("backups")
s = share()
b = manila("POST", "/share-backups", {"share_backup": {"share_id": s, "name": "b", "backup_options": {"backup_type": "dummy"}}}, show=True,
           note="backup", who=demo, cut=300, **EXPERIMENTAL)
manila("GET", "/share-backups", note="without the header for experiments", who=demo)
b = b.json()["share_backup"]["id"]
follow("share-backups", b, "available", "error", limit=3)
delete("shares", s, "share of which a backup is being made")
manila("POST", f"/share-backups/{b}/action", {"reset_status": {"status": "available"}}, note="reset_status of the backup", who=cloud, **EXPERIMENTAL)
act("shares", s, {"reset_status": {"status": "available"}}, "reset_status of the share", who=cloud)
delete("shares", s, "share with a backup")
delete("share-backups", b, "backup", **EXPERIMENTAL)
follow("share-backups", b)
delete("share-backups", b, "again, gone", **EXPERIMENTAL)
delete("shares", s, "the share", show=False)

head("share networks, security services")
net = demo.network.create_network(name="n")
sub = demo.network.create_subnet(network_id=net.id, ip_version=4, cidr="10.9.0.0/24")
sn = make("/share-networks", "share_network", name="sn", neutron_net_id=net.id, neutron_subnet_id=sub.id)
ss = make("/security-services", "security_service", name="ss", type="ldap", password="hidden")
act("share-networks", sn, {"add_security_service": {"security_service_id": ss}}, show=False)
rows = ok(manila("GET", "/security-services/detail", show=False, who=demo))["security_services"]
say(f"    fields of a security service: {sorted(rows[0])}, share_networks {rows[0]['share_networks']}")
manila("GET", f"/security-services/{ss}", who=demo, note="a security service")
more = ok(manila("POST", f"/share-networks/{sn}/subnets", {"share-network-subnet": {"neutron_net_id": net.id, "neutron_subnet_id": sub.id}},
                 show=False, who=demo))["share_network_subnet"]["id"]
delete("share-networks", sn, "share network with two subnets")
delete("share-networks", f"{sn}/subnets/{more}", "one of them")
delete("share-networks", f"{sn}/subnets/{more}", "again")
s = share(share_type=SERVED, share_network_id=sn)
say(f"    share {state(get('shares', s))}")
manila("GET", f"/share-networks/{sn}", who=demo, note="a share network", cut=1500)
ports = list(cloud.network.ports(network_id=net.id))
for port in ports:
    say(f"    port {port.device_owner!r} device_id {port.device_id} name {port.name!r} "
        f"of {'the project' if port.project_id == demo.current_project_id else port.project_id}")
call("DELETE", "network", f"/ports/{next(p.id for p in ports if p.device_owner.startswith('manila'))}", who=demo, note="its port, as a member")
call("DELETE", "network", f"/subnets/{sub.id}", who=demo, note="its subnet")
call("DELETE", "network", f"/networks/{net.id}", who=demo, note="its network")
delete("share-networks", sn, "share network with a share")
delete("security-services", ss, "security service of a share network")
delete("share-networks", f"{sn}/subnets/{ok(get('share-networks', sn))['share_network']['share_network_subnets'][0]['id']}", "its subnet in Manila")
delete("shares", s, "the share", show=False)
follow("shares", s)
say(f"    ports without the share: {len(list(cloud.network.ports(network_id=net.id)))}")
for who, note, query in ((demo, "as a member", ""), (cloud, "as an admin", ""), (cloud, "all_tenants", "?all_tenants=1"),
                         (cloud, "a project's", f"?all_tenants=1&project_id={demo.current_project_id}"),
                         (demo, "by a network", f"?neutron_net_id={net.id}"), (demo, "by another network", f"?neutron_net_id={sn}"),
                         (cloud, "all_tenants, by a network", f"?all_tenants=1&neutron_net_id={net.id}"),
                         (demo, "by a security service", f"?security_service_id={ss}")):
    rows = ok(manila("GET", f"/share-networks/detail{query}", show=False, who=who))["share_networks"]
    say(f"GET /share-networks/detail{query}, {note}\n    -> {len(rows)} rows")
for who, note, query in ((cloud, "as an admin", ""), (cloud, "all_tenants", "?all_tenants=1"),
                         (cloud, "a project's", f"?all_tenants=1&project_id={demo.current_project_id}")):
    rows = ok(manila("GET", f"/security-services/detail{query}", show=False, who=who))["security_services"]
    say(f"GET /security-services/detail{query}, {note}\n    -> {len(rows)} rows")
call("DELETE", "network", f"/networks/{net.id}", who=demo, note="the network, whose share server has no share any more")
delete("share-networks", sn, "share network")
watch(lambda: call("GET", "network", f"/ports?network_id={net.id}", show=False), lambda a: f"{len(a.json()['ports'])} ports",
      lambda a: not a.json()["ports"])
delete("share-networks", sn, "again")
delete("security-services", ss, "security service")
delete("security-services", ss, "again")
call("DELETE", "network", f"/networks/{net.id}", who=demo, note="the network")
net = demo.network.create_network(name="n")
sub = demo.network.create_subnet(network_id=net.id, ip_version=4, cidr="10.9.0.0/24")
sn = make("/share-networks", "share_network", name="sn", neutron_net_id=net.id, neutron_subnet_id=sub.id)
call("DELETE", "network", f"/networks/{net.id}", who=demo, note="network of a share network without share servers")
s = share(share_type=SERVED, share_network_id=sn)
say(f"    a share on it then: {state(get('shares', s))}")
delete("shares", s, "that share", show=False)
follow("shares", s)
delete("share-networks", sn, "its share network")
