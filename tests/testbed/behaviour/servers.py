"""Helpers for servers, volumes, ports and their states."""
import time

import calls
from calls import a_flavor, an_image, call, cloud, demo, ok, say, watch

IMAGE, FLAVOR = an_image(), a_flavor()


def network(who=cloud, name="servers"):
    made = who.network.create_network(name=name)
    who.network.create_subnet(network_id=made.id, ip_version=4, cidr="10.9.0.0/16")
    return made


NET = network()


def get(server, who=cloud):
    return call("GET", "compute", f"/servers/{server['id']}", show=False, who=who)


def server(name, who=cloud, net=None, wait=True, hints=None, **fields):
    body = {"name": name, "imageRef": IMAGE.id, "flavorRef": FLAVOR.id, "networks": [{"uuid": (net or NET).id}], **fields}
    body = {"server": {key: value for key, value in body.items() if value is not None}}
    if hints:
        body["os:scheduler_hints"] = hints
    made = ok(call("POST", "compute", "/servers", body, show=False, who=who))["server"]
    while wait:
        made = ok(get(made))["server"]
        if made["status"] in ("ACTIVE", "ERROR"):
            break
        time.sleep(0.2)
    return made


def describe(answer):
    row = answer.json()["server"]
    fault = f", fault {row['fault']['code']}: {row['fault']['message']}" if row.get("fault") else ""
    return f"{row['status']}, task_state {row['OS-EXT-STS:task_state']}, vm_state {row['OS-EXT-STS:vm_state']}{fault}"


def state(server):
    answer = get(server)
    say("    " + (describe(answer) if answer.ok else str(answer.status_code)))


def is_error(answer):
    return answer.ok and answer.json()["server"]["status"] == "ERROR"


def follow(server, limit=30, until=lambda answer: False):
    return watch(lambda: get(server), describe, until, limit)


def delete(server, note="", who=cloud, **more):
    return call("DELETE", "compute", f"/servers/{server['id']}", note=note, who=who, **more)


def act(server, body, note="", who=cloud, **more):
    return call("POST", "compute", f"/servers/{server['id']}/action", body, note=note, who=who, **more)


def remove(*servers):
    """Deletes servers, and prints nothing."""
    for each in servers:
        delete(each, show=False)
    for each in servers:
        while get(each).status_code != 404:
            time.sleep(0.2)


def interface(server):
    """The port of a server's first interface."""
    return ok(call("GET", "compute", f"/servers/{server['id']}/os-interface", show=False))["interfaceAttachments"][0]["port_id"]


def port(**fields):
    return cloud.network.create_port(network_id=NET.id, **fields)


def show_port(port):
    fields = "&".join(f"fields={name}" for name in ("id", "device_owner", "device_id", "status", "binding:host_id", "binding:vif_type"))
    answer = call("GET", "network", f"/ports/{port}?{fields}", show=False)
    say(f"    port: {answer.status_code} {answer.text}")


def get_volume(volume):
    return call("GET", "block-storage", f"/volumes/{volume['id']}", show=False)


def volume(name="v", who=cloud, **fields):
    made = ok(call("POST", "block-storage", "/volumes", {"volume": {"size": 1, "name": name, **fields}}, show=False, who=who))["volume"]
    while made["status"] not in ("available", "error"):
        time.sleep(0.2)
        made = ok(get_volume(made))["volume"]
    return made


def describe_volume(answer):
    row = answer.json()["volume"]
    return f"volume {row['status']}, attached to {[each['server_id'] for each in row['attachments']]}"


def follow_volume(volume, status="available", limit=10):
    return watch(lambda: get_volume(volume), describe_volume, lambda answer: answer.json()["volume"]["status"] == status, limit)


def attach(server, volume, **fields):
    ok(call("POST", "compute", f"/servers/{server['id']}/os-volume_attachments",
            {"volumeAttachment": {"volumeId": volume["id"], **fields}}, show=False))
    while ok(get_volume(volume))["volume"]["status"] != "in-use":
        time.sleep(0.2)


def detach(server, volume, note):
    return call("DELETE", "compute", f"/servers/{server['id']}/os-volume_attachments/{volume['id']}", note=note)


__all__ = [name for name in dir() if not name.startswith("_")]
