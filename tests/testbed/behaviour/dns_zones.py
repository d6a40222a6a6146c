"""Provokes the answers of Designate that BEHAVIOUR.md lists."""
import time

from calls import call, demo, head, misbehave, ok, watch


def dns(method, path, body=None, note="", **more):
    return call(method, "dns", path, body, note=note, **more)


def zone(name):
    made = ok(dns("POST", "/zones", {"name": name, "email": "a@example.org"}, show=False))["id"]
    while ok(dns("GET", f"/zones/{made}", show=False))["status"] != "ACTIVE":
        time.sleep(0.2)
    return made


def recordset(zone, name):
    return ok(dns("POST", f"/zones/{zone}/recordsets", {"name": name, "type": "A", "records": ["10.0.0.1"]}, show=False))["id"]


def follow(path):
    watch(lambda: dns("GET", path, show=False), lambda a: f"{a.json()['status']}, action {a.json()['action']}", lambda a: False, 60)


head("zones and record sets")
z = zone("a.org.")
r = recordset(z, "www.a.org.")
dns("DELETE", f"/zones/{z}/recordsets/{r}", note="record set while it is made", cut=150)
follow(f"/zones/{z}/recordsets/{r}")
dns("DELETE", f"/zones/{z}/recordsets/{r}", note="again, gone")
for each in ok(dns("GET", f"/zones/{z}/recordsets", show=False))["recordsets"]:
    dns("DELETE", f"/zones/{z}/recordsets/{each['id']}", note=f"record set of type {each['type']}")
sub = zone("sub.a.org.")
dns("DELETE", f"/zones/{z}", note="zone with a zone below it")
dns("DELETE", f"/zones/{sub}", note="zone", cut=900)
follow(f"/zones/{sub}")
r = recordset(z, "www.a.org.")
ok(dns("POST", f"/zones/{z}/tasks/transfer_requests", {"description": "x"}, show=False))
dns("DELETE", f"/zones/{z}", who=demo, note="another project's, as a member")
dns("DELETE", f"/zones/{z}", note="zone with a record set and a transfer request", cut=150)
dns("DELETE", f"/zones/{z}", note="again meanwhile", cut=150)
dns("DELETE", f"/zones/{z}/recordsets/{r}", note="its record set meanwhile", cut=150)
dns("POST", f"/zones/{z}/recordsets", {"name": "x.a.org.", "type": "A", "records": ["10.0.0.1"]}, note="new record set meanwhile")
follow(f"/zones/{z}")
dns("DELETE", f"/zones/{z}", note="again, gone")
dns("GET", f"/zones/{z}/recordsets", note="its record sets then")
dns("DELETE", "/zones/nosuch", note="no UUID")

head("name servers that refuse")
misbehave("designate", "delete-fails", "failing")
z = zone("failing.org.")
dns("DELETE", f"/zones/{z}", note="the pool's driver raises", cut=150)
follow(f"/zones/{z}")
misbehave("designate", "well")
