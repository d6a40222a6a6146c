"""Helpers for the scripts of this folder: calls that print request, status and body.

Ids are printed as numbers in the order of their appearance, so that two runs print nearly the same.
"""
import os
import re
import subprocess
import time

import openstack
import requests

cloud = openstack.connect(cloud="testbed")
demo = openstack.connect(cloud="testbed-demo")
# The parts of the paths that the URLs of the catalog lack.
PREFIXES = {"network": "/v2.0", "image": "/v2", "dns": "/v2", "key-manager": "/v1", "load-balancer": "/v2.0/lbaas",
            "shared-file-system": "/v2"}
# The newest microversions of the pinned releases.
VERSIONS = {"compute": "2.96", "block-storage": "3.70", "placement": "1.39", "shared-file-system": "2.99"}
MISBEHAVE = os.path.join(os.path.dirname(__file__), "../misbehave")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b")
NOISE = ((re.compile(r"req-[0-9a-f-]{36}"), "req-…"), (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?"), "TIME"),
         (re.compile(r"127\.0\.0\.1:\d+"), "HOST"), (re.compile(r"fa:16:3e(:[0-9a-f]{2}){3}"), "MAC"))
numbers = {}


def short(text):
    for pattern, instead in NOISE:
        text = pattern.sub(instead, text)
    return ID.sub(lambda found: f"<{numbers.setdefault(found.group(), len(numbers) + 1)}>", text)


def say(text):
    print(short(text), flush=True)


def head(title):
    print(f"\n## {title}", flush=True)


def url(service, who=cloud):
    return who.session.get_endpoint(service_type=service, interface="public", region_name="RegionOne").rstrip("/") \
        .removesuffix("/v2.0").removesuffix("/v2") + PREFIXES.get(service, "")


def call(method, service, path, body=None, who=cloud, note="", show=True, token=None, version=None, cut=900, **headers):
    headers = {name.replace("_", "-"): text for name, text in headers.items()}
    shown = "".join(f"  {name}: {text}" for name, text in headers.items())
    headers["X-Auth-Token"] = token or who.auth_token
    if service not in ("network", "load-balancer"):
        headers.setdefault("Accept", "application/json")
    if service == "shared-file-system":
        headers["X-OpenStack-Manila-API-Version"] = version or VERSIONS[service]
    elif service in VERSIONS:
        name = "volume" if service == "block-storage" else service
        headers["OpenStack-API-Version"] = f"{name} {version or VERSIONS[service]}"
    began = time.time()
    answer = requests.request(method, url(service, who) + path, json=body, headers=headers, timeout=120)
    if show:
        shown += f"  {body}" if body is not None and len(str(body)) < 250 else ""
        text = answer.text if len(answer.text) < cut else answer.text[:cut] + " ..."
        took = time.time() - began
        late = f"  (after {took:.0f} s)" if took > 2.9 else ""
        say(f"{note + ': ' if note else ''}{method} {path}{shown}\n    -> {answer.status_code} {text.rstrip()}{late}")
    return answer


def ok(answer):
    if not answer.ok:
        raise SystemExit(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}")
    return answer.json() if answer.text else {}


def watch(fetch, describe, until, limit=30):
    """Prints each change of an object, until `until` holds for it, it is gone, or `limit` seconds have passed."""
    began, last = time.time(), None
    while True:
        answer = fetch()
        now = describe(answer) if answer.ok else f"{answer.status_code}"
        late = time.time() - began
        if now != last:
            say(f"    {f'after {late:.0f} s: ' if late > 1.5 else ''}{now}")
            last = now
        if answer.status_code == 404 or until(answer):
            return answer
        if late > limit:
            say(f"    and so it stays, for {limit} s")
            return answer
        time.sleep(0.15)


def misbehave(*words):
    subprocess.run([MISBEHAVE, *words], check=True, stdout=subprocess.DEVNULL)
    print(f"(misbehave {' '.join(words)})", flush=True)


def an_image(name="cirros"):
    """Returns an image with meaningless content, because no server really runs."""
    image = cloud.image.find_image(name)
    return image or cloud.image.create_image(name=name, disk_format="raw", container_format="bare", visibility="public",
                                             data=b"x" * 1024, validate_checksum=False)


def a_flavor(name="m1.tiny", **fields):
    return cloud.compute.find_flavor(name) or cloud.compute.create_flavor(**{"name": name, "ram": 64, "vcpus": 1, "disk": 1, **fields})
