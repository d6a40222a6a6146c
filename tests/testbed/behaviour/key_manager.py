"""Provokes the answers of Barbican that BEHAVIOUR.md lists."""
from calls import call, demo, head, ok, say, url


def barbican(method, path, body=None, note="", **more):
    return call(method, "key-manager", path, body, note=note, **more)


def make(collection, who=demo, **fields):
    (ref,) = ok(barbican("POST", f"/{collection}", fields, show=False, who=who)).values()
    return f"/{collection}/{ref.rsplit('/', 1)[1]}"


def secret():
    return make("secrets", name="s", payload="x", payload_content_type="text/plain")


head("secrets, containers, orders")
s = secret()
barbican("DELETE", s, who=demo, note="secret, as a member")
barbican("DELETE", s, who=demo, note="again")
barbican("GET", s, who=demo, note="gone")
barbican("DELETE", "/secrets/nosuch", who=demo, note="no UUID")
s = secret()
barbican("DELETE", s, note="another project's, as an admin")
s = secret()
c = make("containers", type="generic", name="c", secret_refs=[{"name": "a", "secret_ref": url("key-manager") + s}])
barbican("POST", f"{s}/consumers", {"service": "lb", "resource_type": "listener", "resource_id": "1"}, who=demo, note="consumer of the secret", cut=100)
barbican("DELETE", s, who=demo, note="secret in a container and with a consumer")
barbican("GET", s, who=demo, note="the secret then")
say(f"    its container's secret_refs: {ok(barbican('GET', c, show=False, who=demo))['secret_refs']}")
barbican("POST", f"{c}/consumers", {"name": "lb", "URL": "http://x"}, who=demo, note="consumer of the container", cut=100)
barbican("DELETE", c, who=demo, note="container with a consumer")
barbican("DELETE", c, who=demo, note="again")
o = make("orders", type="key", meta={"name": "o", "algorithm": "aes", "bit_length": 256, "mode": "cbc", "payload_content_type": "application/octet-stream"})
order = ok(barbican("GET", o, show=False, who=demo))
say(f"    order {order['status']}, with secret_ref: {'secret_ref' in order}")
barbican("DELETE", o, who=demo, note="order")
barbican("DELETE", o, who=demo, note="again")
if "secret_ref" in order:
    barbican("GET", f"/secrets/{order['secret_ref'].rsplit('/', 1)[1]}", who=demo, note="the secret that it made", cut=100)
