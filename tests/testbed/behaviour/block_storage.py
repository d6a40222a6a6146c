"""Provokes the answers of Cinder that BEHAVIOUR.md lists."""
import concurrent.futures as futures
import time

from calls import a_flavor, an_image, call, cloud, demo, head, misbehave, ok, say, watch

IMAGE, FLAVOR = an_image(), a_flavor()


def cinder(method, path, body=None, note="", **more):
    return call(method, "block-storage", path, body, note=note, **more)


def make(path, kind, who=cloud, **fields):
    return ok(cinder("POST", path, {kind: fields}, show=False, who=who))[kind]["id"]


def get(kind, thing):
    return cinder("GET", f"/{kind}s/{thing}", show=False)


def status(kind, thing):
    return ok(get(kind, thing))[kind]["status"]


def wait(kind, thing):
    """Waits until the resource is created."""
    while status(kind, thing) not in ("available", "error"):
        time.sleep(0.2)
    return thing


def volume(name="v", who=cloud, ready=True, **fields):
    made = make("/volumes", "volume", who, size=1, name=name, **fields)
    return wait("volume", made) if ready else made


def snapshot(volume, name="s"):
    return wait("snapshot", make("/snapshots", "snapshot", volume_id=volume, name=name, force=True))


def server(name):
    made = cloud.compute.create_server(name=name, image_id=IMAGE.id, flavor_id=FLAVOR.id, networks="none")
    return cloud.compute.wait_for_server(made)


def attach(server, volume):
    ok(call("POST", "compute", f"/servers/{server.id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}}, show=False))
    while status("volume", volume) != "in-use":
        time.sleep(0.2)
    return ok(cinder("GET", f"/attachments?volume_id={volume}", show=False))["attachments"][0]["id"]


def follow(kind, thing, *until, limit=12):
    return watch(lambda: get(kind, thing), lambda answer: f"{kind} {answer.json()[kind]['status']}",
                 lambda answer: answer.json()[kind]["status"] in until, limit)


def delete(kind, thing, note="", query="", **more):
    return cinder("DELETE", f"/{kind}s/{thing}{query}", note=note, **more)


def act(kind, thing, body, note="", **more):
    return cinder("POST", f"/{kind}s/{thing}/action", body, note, **more)


def messages(thing):
    for each in ok(cinder("GET", f"/messages?resource_uuid={thing}", show=False))["messages"]:
        say(f"    message {each['event_id']}: {each['user_message']}")


head("volumes")
v = volume()
delete("volume", v)
follow("volume", v)
delete("volume", v, "again, gone")
delete("volume", "nosuch", "no UUID")
cinder("DELETE", "/volumes", note="the collection")
v = volume()
with futures.ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(lambda _: delete("volume", v, show=False).status_code, range(8)))
say(f"DELETE 8 times at once\n    -> {sorted(answers)}")
v = volume()
delete("volume", v, "another project's, as a member", who=demo)
misbehave("cinder", "create-slow", "slow")
v = volume("slow", ready=False)
delete("volume", v, "creating, and no host has been chosen yet")
follow("volume", v)
v = volume("slow", ready=False)
while not ok(get("volume", v))["volume"]["os-vol-host-attr:host"]:
    time.sleep(0.2)
delete("volume", v, "creating")
follow("volume", v, "available")
w = volume("slow clone", source_volid=v, ready=False)
watch(lambda: get("volume", w), lambda a: f"clone {a.json()['volume']['status']}", lambda a: True)
delete("volume", v, "source of a clone that is being made")
follow("volume", v)
follow("volume", w, "available", "error")
misbehave("cinder", "create-fails", "failing")
v = volume("failing")
say(f"    volume {status('volume', v)}")
messages(v)
delete("volume", v, "in error")
follow("volume", v)
misbehave("cinder", "well")
v = volume("up")
image = act("volume", v, {"os-volume_upload_image": {"image_name": "up", "disk_format": "raw", "container_format": "bare", "force": True}},
            "upload to an image", cut=150).json()["os-volume_upload_image"]["image_id"]
delete("volume", v, "uploading, or just done")
follow("volume", v, "available")
call("DELETE", "image", f"/images/{image}", note="image that was made from it")

head("stuck volumes")
v = volume()
for stuck in ("creating", "deleting", "error_deleting", "maintenance", "reserved", "downloading", "uploading", "awaiting-transfer",
              "retyping", "in-use"):
    act("volume", v, {"os-reset_status": {"status": stuck, "attach_status": "detached"}}, show=False)
    plain = delete("volume", v, show=False)
    forced = delete("volume", v, query="?force=true", show=False) if plain.status_code != 202 else None
    say(f"    reset to {stuck}: DELETE -> {plain.status_code}" + (f", with force=true -> {forced.status_code}" if forced else ""))
    follow("volume", v, "available")
    v = volume()
v = volume("of demo", who=demo)
act("volume", v, {"os-force_delete": {}}, "os-force_delete, as a member", who=demo)
delete("volume", v, "force=true, as a member", "?force=true", who=demo)
act("volume", v, {"os-reset_status": {"status": "error"}}, "os-reset_status, as a member", who=demo)

head("a driver that refuses, is busy, slow, or hangs")
misbehave("cinder", "delete-fails", "failing")
v = volume("failing")
delete("volume", v, "the driver raises")
follow("volume", v, "error_deleting")
messages(v)
delete("volume", v, "again")
delete("volume", v, "force=true", "?force=true")
follow("volume", v, "error_deleting")
act("volume", v, {"os-force_delete": {}}, "os-force_delete")
follow("volume", v, "error_deleting")
misbehave("cinder", "well")
act("volume", v, {"os-reset_status": {"status": "available"}}, "os-reset_status")
delete("volume", v, "again, the driver is well")
follow("volume", v)
misbehave("cinder", "delete-busy", "busy")
v = volume("busy")
delete("volume", v, "the driver calls it busy")
follow("volume", v, "available")
messages(v)
s = snapshot(volume(), "busy")
delete("snapshot", s, "snapshot that the driver calls busy")
follow("snapshot", s, "available")
messages(s)
misbehave("cinder", "delete-slow", "slow")
v = volume("slow")
delete("volume", v, "slow")
delete("volume", v, "again meanwhile")
follow("volume", v)
misbehave("cinder", "delete-hangs", "hanging")
v = volume("hanging")
delete("volume", v, "the driver hangs")
follow("volume", v, limit=4)
delete("volume", v, "force=true meanwhile", "?force=true")
misbehave("cinder", "well")
follow("volume", v)

head("snapshots, cascade")
v = volume()
s = snapshot(v)
delete("volume", v, "volume with a snapshot")
delete("snapshot", s)
follow("snapshot", s)
delete("snapshot", s, "again")
s = snapshot(v)
volume("child", snapshot_id=s)
delete("snapshot", s, "snapshot that a volume was made from")
follow("snapshot", s)
delete("volume", v, "its volume")
follow("volume", v)
v = volume()
s = snapshot(v)
delete("volume", v, "with a snapshot, cascade", "?cascade=true")
follow("volume", v)
follow("snapshot", s)
misbehave("cinder", "delete-fails", "failing")
v = volume()
s, t = snapshot(v), snapshot(v, "failing")
delete("volume", v, "cascade, one of two snapshots fails", "?cascade=true")
follow("volume", v, "error_deleting")
follow("snapshot", s, "error_deleting", "available")
follow("snapshot", t, "error_deleting", "available")
messages(v)
delete("snapshot", t, "that snapshot")
delete("volume", v, "cascade again", "?cascade=true")
delete("volume", v, "cascade and force", "?cascade=true&force=true")
follow("volume", v, limit=4)
act("snapshot", t, {"os-force_delete": {}}, "os-force_delete of that snapshot")
follow("snapshot", t, "error_deleting")
misbehave("cinder", "well")
act("snapshot", t, {"os-force_delete": {}}, "again, the driver is well")
follow("snapshot", t, "error_deleting")
delete("volume", v, "its volume, in error_deleting")
delete("volume", v, "with force=true", "?force=true")
follow("volume", v, "error_deleting")

head("attachments")
s = server("attached")
v = volume()
a = make("/attachments", "attachment", volume_uuid=v, instance_uuid=s.id)
say(f"    volume {status('volume', v)}")
delete("volume", v, "reserved by an attachment without a connector")
delete("attachment", a, "that attachment")
delete("attachment", a, "again")
say(f"    volume {status('volume', v)}")
a = attach(s, v)
for query in ("", "?cascade=true", "?force=true"):
    delete("volume", v, "in-use", query)
act("volume", v, {"os-force_delete": {}}, "in-use, os-force_delete")
delete("attachment", a, "attachment of a server that is there")
act("volume", v, {"os-detach": {"attachment_id": a}}, "os-detach")
act("volume", v, {"os-force_detach": {"attachment_id": a}}, "os-force_detach")
act("volume", v, {"os-reset_status": {"status": "available"}}, "os-reset_status of an attached volume")
delete("volume", v, "available and attached")
call("DELETE", "compute", f"/servers/{s.id}", show=False)
cloud.compute.wait_for_delete(s)
say(f"    the server is deleted: volume {status('volume', v)}")
delete("volume", v)
follow("volume", v)
misbehave("cinder", "detach-fails", "failing")
s, v = server("attached"), volume("failing")
a = attach(s, v)
call("DELETE", "compute", f"/servers/{s.id}/os-volume_attachments/{v}", note="detach that the volume's driver refuses")
follow("volume", v, limit=4)
call("DELETE", "compute", f"/servers/{s.id}", note="its server")
watch(lambda: call("GET", "compute", f"/servers/{s.id}", show=False), lambda a: a.json()["server"]["status"], lambda a: a.json()["server"]["status"] == "ERROR")
follow("volume", v, "available", limit=4)
delete("volume", v, "the volume")
delete("attachment", a, "its attachment")
misbehave("cinder", "well")
delete("attachment", a, "again, the driver is well")
follow("volume", v, "available", limit=4)
delete("volume", v, "the volume")
follow("volume", v)

head("transfers, backups")
v = volume()
t = make("/volume-transfers", "transfer", volume_id=v, name="t")
delete("volume", v, "awaiting a transfer")
cinder("DELETE", f"/volume-transfers/{t}", note="the transfer")
cinder("DELETE", f"/volume-transfers/{t}", note="again")
say(f"    volume {status('volume', v)}")
b = make("/backups", "backup", volume_id=v, name="b")
delete("volume", v, "backing up, or just done")
delete("backup", b, "creating, or just done")
if get("backup", b).status_code == 404:
    b = make("/backups", "backup", volume_id=v, name="b")
follow("backup", b, "available")
wait("volume", v)
i = wait("backup", make("/backups", "backup", volume_id=v, name="i", incremental=True))
delete("backup", b, "backup with an incremental one")
delete("volume", v, "volume with backups")
follow("volume", v)
delete("backup", i, "the incremental one")
follow("backup", i)
delete("backup", b, "the full one")
follow("backup", b)
delete("backup", b, "again")

head("groups")
group_type = make("/group_types", "group_type", name="gt")
volume_type = make("/types", "volume_type", name="vt", extra_specs={"volume_backend_name": "testbed"})
g = wait("group", make("/groups", "group", name="g", group_type=group_type, volume_types=[volume_type]))
v = volume(volume_type=volume_type, group_id=g)
delete("volume", v, "volume in a group")
delete("volume", v, "the same, cascade", "?cascade=true")
act("group", g, {"delete": {"delete-volumes": False}}, "group with a volume")
delete("group", g, "DELETE of a group, which Cinder does not have")
cinder("DELETE", f"/group_types/{group_type}", note="group type in use")
cinder("DELETE", f"/types/{volume_type}", note="volume type in use")
gs = wait("group_snapshot", make("/group_snapshots", "group_snapshot", name="gs", group_id=g))
s = ok(cinder("GET", f"/snapshots/detail?volume_id={v}", show=False))["snapshots"][0]["id"]
delete("snapshot", s, "snapshot of a group snapshot")
act("group", g, {"delete": {"delete-volumes": True}}, "group with a group snapshot")
delete("group_snapshot", gs, "group snapshot")
follow("group_snapshot", gs)
follow("snapshot", s)
delete("group_snapshot", gs, "again")
act("group", g, {"delete": {"delete-volumes": True}}, "group and its volumes")
follow("group", g)
follow("volume", v)
act("group", g, {"delete": {"delete-volumes": True}}, "again")
cinder("DELETE", f"/group_types/{group_type}", note="group type")
q = make("/qos-specs", "qos_specs", name="q")
cinder("GET", f"/qos-specs/{q}/associate?vol_type_id={volume_type}", show=False)
cinder("DELETE", f"/qos-specs/{q}", note="QoS specs of a volume type")
cinder("DELETE", f"/types/{volume_type}", note="volume type with QoS specs")
cinder("DELETE", f"/qos-specs/{q}", note="QoS specs")
default = next(each["id"] for each in ok(cinder("GET", "/types", show=False))["volume_types"] if each["name"] == "__DEFAULT__")
cinder("DELETE", f"/types/{default}", note="the default volume type")
