#!/usr/bin/env python3
"""Keeps an inventory of a cloud in SQLite, and never brings back what gone is deleting.

    sync_inventory.py --socket ~/.local/state/gone/gone.sock --site prod/RegionOne \\
        --network http://network.example.org:9696 --database inventory.db

The token is read from $OS_TOKEN (`openstack token issue -f value -c id`). Only Python's standard library
is needed.

A listing may be older than a deletion: it may show resources that are being deleted or gone. So the order is

1. list the cloud,
2. then ask gone for its tombstones,
3. write the resources without a tombstone, and remove those with one, in one transaction.

A tombstone that is created after step 2 takes effect in the next round, which `--follow` starts as soon as
gone reports a change.
"""

import argparse
import http.client
import json
import os
import socket
import sqlite3
import sys
import time
import urllib.parse
import urllib.request

# The kinds to keep, by gone's names, and the collections in which Neutron lists them.
KINDS = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "floating_ip": "floatingips",
    "security_group": "security_groups",
}
PATHS = {"security_groups": "security-groups"}
# Phases of tombstones that hide a resource. In `checking`, a deletion may still be refused.
HIDING = ("deleting", "gone", "purged")
PAGE = 500


class Gone(http.client.HTTPConnection):
    """gone's own API, on its private socket."""

    def __init__(self, path):
        super().__init__("gone")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(path, target):
    """Returns one answer of gone, parsed from JSON."""
    connection = Gone(path)
    connection.request("GET", target)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        sys.exit(f"gone answered {answer.status} to {target}: {body.decode()[:300]}")
    return json.loads(body)


def tombstones(path, site):
    """Returns kind and id of each resource that is being deleted or was deleted."""
    found, cursor = set(), None
    while True:
        query = [("site", site)] + [("phase", phase) for phase in HIDING]
        if cursor:
            query.append(("cursor", cursor))
        page = ask(path, "/api/v1/tombstones?" + urllib.parse.urlencode(query))
        found.update((row["kind"], row["id"].lower()) for row in page["items"])
        cursor = page.get("next")
        if not cursor:
            return found


def listed(network, token, collection):
    """Yields every row of a collection, page by page."""
    url = f"{network}/v2.0/{PATHS.get(collection, collection)}?limit={PAGE}"
    while url:
        request = urllib.request.Request(url, headers={"X-Auth-Token": token})
        with urllib.request.urlopen(request, timeout=60) as answer:
            page = json.load(answer)
        yield from page[collection]
        links = page.get(f"{collection}_links", [])
        url = next((link["href"] for link in links if link["rel"] == "next"), None)


def sync(options, database):
    """Runs one round, and returns how many rows it kept."""
    rows = [
        (kind, row["id"].lower(), row.get("name") or "", json.dumps(row))
        for kind, collection in KINDS.items()
        for row in listed(options.network, options.token, collection)
    ]
    hidden = tombstones(options.socket, options.site)
    kept = [row for row in rows if row[:2] not in hidden]
    with database:
        database.execute("DELETE FROM inventory")
        database.executemany("INSERT OR REPLACE INTO inventory VALUES(?, ?, ?, ?)", kept)
    return len(kept)


def changes(path, after):
    """Waits for an event after this one, and returns its number."""
    connection = Gone(path)
    connection.request("GET", f"/api/v1/events?after={after}")
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"gone answered {answer.status} to its events; start again")
    for line in answer:
        if line.startswith(b"id:"):
            connection.close()
            return int(line[3:])
    # The engine has ended, and may start again.
    time.sleep(1)
    return after


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--socket", required=True, help="gone's socket")
    parser.add_argument("--site", required=True, help="CLOUD/REGION, as gone calls it")
    parser.add_argument("--network", required=True, help="URL of the network service")
    parser.add_argument("--database", default="inventory.db")
    parser.add_argument("--follow", action="store_true", help="run a round after each change")
    options = parser.parse_args()
    options.network = options.network.rstrip("/")
    options.token = os.environ.get("OS_TOKEN") or sys.exit("set OS_TOKEN")
    database = sqlite3.connect(options.database)
    database.execute(
        "CREATE TABLE IF NOT EXISTS inventory(kind, id, name, row, PRIMARY KEY(kind, id))"
    )
    seen = 0
    while True:
        print(sync(options, database), flush=True)
        if not options.follow:
            return
        seen = changes(options.socket, seen)


if __name__ == "__main__":
    main()
