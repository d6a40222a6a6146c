#!/usr/bin/env python3
"""Keeps an inventory of a cloud in SQLite, and never brings back what gone is deleting.

    sync_inventory.py --socket ~/.local/state/gone/gone.sock --site prod/RegionOne \\
        --network http://network.example.org:9696 --database inventory.db

The token is read from $OS_TOKEN (`openstack token issue -f value -c id`). Nothing but Python's own
library is needed.

A listing may be older than a deletion: what it shows may be on its way out, or gone. So the order is

1. list the cloud,
2. then ask gone for its tombstones,
3. write what has none, and remove what has one,

all in one transaction. A tombstone that comes after step 2 is seen in the next round; `--follow` starts
that as soon as gone tells of a change.
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

# What is kept, by gone's name of the kind, and where Neutron lists it.
KINDS = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "floating_ip": "floatingips",
    "security_group": "security_groups",
}
PATHS = {"security_groups": "security-groups"}
# A resource with such a tombstone is not to be shown any more. `checking` may still be refused.
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
    """One answer of gone's, as JSON."""
    connection = Gone(path)
    connection.request("GET", target)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        sys.exit(f"gone answered {answer.status} to {target}: {body.decode()[:300]}")
    return json.loads(body)


def tombstones(path, site):
    """Kind and id of all that is being deleted, or was."""
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
    """Every row of a collection, page by page."""
    url = f"{network}/v2.0/{PATHS.get(collection, collection)}?limit={PAGE}"
    while url:
        request = urllib.request.Request(url, headers={"X-Auth-Token": token})
        with urllib.request.urlopen(request, timeout=60) as answer:
            page = json.load(answer)
        yield from page[collection]
        links = page.get(f"{collection}_links", [])
        url = next((link["href"] for link in links if link["rel"] == "next"), None)


def sync(options, database):
    """One round; how many rows are kept."""
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
    """Returns with the newest event's number when gone tells of any after this one."""
    connection = Gone(path)
    connection.request("GET", f"/api/v1/events?after={after}")
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"gone answered {answer.status} to its events; start again")
    for line in answer:
        if line.startswith(b"id:"):
            connection.close()
            return int(line[3:])
    # gone has ended: it may come back.
    time.sleep(1)
    return after


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--socket", required=True, help="gone's socket")
    parser.add_argument("--site", required=True, help="CLOUD/REGION, as gone calls it")
    parser.add_argument("--network", required=True, help="URL of the network service")
    parser.add_argument("--database", default="inventory.db")
    parser.add_argument("--follow", action="store_true", help="go on, round by round")
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
