"""Empties a project as people do it today, for the bench `project`: `cleanup` is project_cleanup of
openstacksdk, `script` sends plain calls in the right order by eight threads, `commands` runs the `openstack`
commands that an admin types in a similar order, each with many ids. The last two wait until everything is
deleted, as gone does. Prints the seconds taken."""
import os
import pathlib
import queue
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import openstack

THREADS = 8


def cleanup(cloud, project):
    own = cloud.connect_as_project(cloud.get_project(project))
    own.project_cleanup(dry_run=False, wait_timeout=600, status_queue=queue.Queue())


def script(cloud, project):
    network, balancers, images = cloud.network, cloud.load_balancer, cloud.image
    compute, storage, heat, dns = cloud.compute, cloud.block_storage, cloud.orchestration, cloud.dns
    pool = ThreadPoolExecutor(THREADS)
    everywhere = {"X-Auth-All-Projects": "true"}

    def rows(collection, service=network, items=None, owner="project_id", **more):
        items = items or collection.rsplit("/", 1)[-1].replace("-", "_")
        found = service.get(f"/{collection}", params={owner: project, **more}).json()
        return found[items]

    def of_all(collection, service):
        return rows(f"{collection}/detail", service, collection, all_tenants=1)

    def stacks():
        return [row for row in heat.get("/stacks").json()["stacks"] if row["project"] == project]

    def zones():
        found = dns.get("/zones", params={"limit": 1000}, headers=everywhere).json()["zones"]
        return [row for row in found if row["project_id"] == project]

    def until_none(found):
        while found():
            time.sleep(0.5)

    def each(collection, found, service=network, suffix=""):
        list(pool.map(lambda row: service.delete(f"/{collection}/{row['id']}{suffix}"), found))

    lbs = rows("lbaas/loadbalancers", balancers, "loadbalancers")
    each("lbaas/loadbalancers", lbs, balancers, "?cascade=true")
    for stack in stacks():
        heat.delete(f"/stacks/{stack['stack_name']}/{stack['id']}")
    for zone in zones():
        dns.delete(f"/zones/{zone['id']}", headers=everywhere)
    each("servers", of_all("servers", compute), compute)
    for collection in ("snapshots", "backups"):
        each(collection, of_all(collection, storage), storage)
    for collection, service in (("servers", compute), ("snapshots", storage), ("backups", storage)):
        until_none(lambda collection=collection, service=service: of_all(collection, service))
    until_none(stacks)
    each("volumes", of_all("volumes", storage), storage)
    until_none(lambda: rows("lbaas/loadbalancers", balancers, "loadbalancers"))
    addresses = rows("floatingips")
    for address in addresses:
        each(f"floatingips/{address['id']}/port_forwardings", address["port_forwardings"] or [])
    each("floatingips", addresses)
    each("trunks", rows("trunks"))
    for router in rows("routers"):
        path = f"/routers/{router['id']}"
        network.put(path, json={"router": {"routes": []}})
        found = network.get("/ports", params={"device_id": router["id"]}).json()["ports"]
        for port in found:
            if port["device_owner"] == "network:router_interface":
                network.put(f"{path}/remove_router_interface", json={"port_id": port["id"]})
        network.delete(path)
    each("ports", [port for port in rows("ports") if port["device_owner"] != "network:dhcp"])
    each("networks", rows("networks"))
    for collection in ("subnetpools", "address-scopes", "security-groups", "address-groups",
                       "qos/policies"):
        each(collection, rows(collection))
    each("images", rows("images", images, owner="owner"), images)
    until_none(lambda: of_all("volumes", storage))
    until_none(zones)


def commands(_, project):
    tool = pathlib.Path(sys.executable).with_name("openstack")
    surroundings = os.environ | {"OS_CLOUD": "testbed", "OS_PROJECT_ID": project}

    def openstack(line, *more):
        done = subprocess.run([tool, *line.split(), *more], env=surroundings, text=True,
                              stdout=subprocess.PIPE, check=True)
        return done.stdout.split()

    def ids(line, column="ID"):
        return openstack(f"{line} -f value -c {column}")

    def each(delete, found):
        if found:
            openstack(delete, *found)

    def pairs(words):
        return zip(words[::2], words[1::2])

    own = f"--project {project}"
    stacks = openstack("stack list -f value -c ID", "-c", "Project")
    each("stack delete --yes --wait", [stack for stack, of in pairs(stacks) if of == project])

    def zones_left():
        found = openstack("zone list --all-projects -f value -c id", "-c", "project_id")
        return [zone for zone, of in pairs(found) if of == project]

    each("zone delete --all-projects", zones_left())
    every = "--all-projects " + own
    each("server delete --wait", ids(f"server list {every}"))
    each("volume snapshot delete", ids(f"volume snapshot list {every}"))
    each("volume backup delete", ids(f"volume backup list {every}"))
    while ids(f"volume snapshot list {every}") or ids(f"volume backup list {every}"):
        time.sleep(0.5)
    each("volume delete", ids(f"volume list {every}"))
    for balancer in (balancers := ids(f"loadbalancer list {own}", "id")):
        openstack(f"loadbalancer delete --cascade {balancer}")
    while balancers and ids(f"loadbalancer list {own}", "id"):
        time.sleep(0.5)
    addresses = ids(f"floating ip list {own}")
    for address in addresses:
        forwarding = "floating ip port forwarding"
        each(f"{forwarding} delete {address}", ids(f"{forwarding} list {address}"))
    each("floating ip delete", addresses)
    ports = ids(f"port list {own}")
    # A list of trunks does not show their projects, but their ports.
    trunks = openstack("network trunk list -f value -c ID", "-c", "Parent Port")
    each("network trunk delete", [trunk for trunk, port in pairs(trunks) if port in ports])
    for router in ids(f"router list {own}"):
        openstack(f"router set --no-route {router}")
        for port in ids(f"port list --device-owner network:router_interface --router {router}"):
            openstack(f"router remove port {router} {port}")
        openstack(f"router delete {router}")
    each("port delete", ids(f"port list {own}"))
    each("network delete", ids(f"network list {own}"))
    groups = openstack(f"security group list {own} -f value -c ID -c Name")
    own_groups = [group for group, name in pairs(groups) if name != "default"]
    each("security group delete", own_groups)
    for kind in ("subnet pool", "address scope", "address group", "network qos policy"):
        each(f"{kind} delete", ids(f"{kind} list {own}"))
    each("image delete", ids(f"image list {own}"))
    while ids(f"volume list {every}") or zones_left():
        time.sleep(0.5)


def main():
    how, project = sys.argv[1:]
    cloud = openstack.connect(cloud="testbed", region_name="RegionOne")
    # project_cleanup logs in to the project that it empties, so the admin needs a role there.
    cloud.grant_role("admin", user=cloud.current_user_id, project=project)
    began = time.monotonic()
    {"cleanup": cleanup, "script": script, "commands": commands}[how](cloud, project)
    print(time.monotonic() - began)


main()
