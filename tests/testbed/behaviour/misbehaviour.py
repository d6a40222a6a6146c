"""Shows what a client sees of the misbehaviour that every service can have."""
import requests

import calls
from calls import cloud, head, misbehave, say


def call(method, path, note):
    try:
        calls.call(method, "network", path, note=note, cut=150)
    except requests.RequestException as error:
        say(f"{note}: {method} {path}\n    -> {type(error).__name__}")


head("misbehaviour")
for words in (("slow", "3"), ("fails",), ("fails", "500"), ("busy",), ("lying-list",), ("lying-get",), ("lying-delete",), ("down",)):
    path = f"/networks/{cloud.network.create_network(name='there').id}"
    misbehave("neutron1", *words)
    call("GET", "/networks?name=there&fields=id", "a list")
    call("GET", path + "?fields=id", "a resource")
    call("DELETE", path, "the resource")
    misbehave("neutron1", "well")
    call("GET", path + "?fields=id", "the resource, the service is well")
misbehave("neutron1", "hangs")
try:
    requests.get(calls.url("network"), timeout=5)
except requests.RequestException as error:
    say(f"a request that waits 5 s\n    -> {type(error).__name__}")
misbehave("neutron1", "well")
