"""Provokes the answers of Heat that BEHAVIOUR.md lists."""
from calls import a_flavor, an_image, call, cloud, demo, head, misbehave, ok, say, watch

IMAGE, FLAVOR = an_image(), a_flavor()
NETWORK = {"n": {"type": "OS::Neutron::Net"},
           "s": {"type": "OS::Neutron::Subnet", "properties": {"network": {"get_resource": "n"}, "cidr": "10.3.0.0/24"}}}


def heat(method, path, body=None, note="", **more):
    return call(method, "orchestration", path, body, note=note, **more)


def status(answer):
    stack = answer.json()["stack"]
    return f"{stack['stack_status']}: {stack['stack_status_reason'][:250]}"


def follow(path, limit=60, who=cloud):
    return watch(lambda: heat("GET", path, show=False, who=who), status,
                 lambda a: not a.json()["stack"]["stack_status"].endswith("_IN_PROGRESS"), limit)


def stack(name, resources=NETWORK, who=cloud):
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    made = ok(heat("POST", "/stacks", {"stack_name": name, "template": template, "timeout_mins": 3}, show=False, who=who))["stack"]
    path = f"/stacks/{name}/{made['id']}"
    follow(path, 120, who)
    return path


def resources(path):
    return ok(heat("GET", path + "/resources", show=False))["resources"]


def physical(path, name):
    return next(each["physical_resource_id"] for each in resources(path) if each["resource_name"] == name)


def with_server(name):
    server = {"type": "OS::Nova::Server", "depends_on": "s", "properties": {
        "name": name, "image": IMAGE.id, "flavor": FLAVOR.id, "networks": [{"network": {"get_resource": "n"}}]}}
    kept = {"type": "OS::Cinder::Volume", "deletion_policy": "Retain", "properties": {"size": 1}}
    return stack(name, {**NETWORK, "server": server, "kept": kept})


head("stacks")
p = stack("plain")
heat("DELETE", p, note="another project's, as a member", who=demo)
heat("DELETE", p)
heat("DELETE", p, note="again meanwhile")
follow(p)
heat("DELETE", p, note="again, gone")
heat("GET", p, note="gone", cut=150)
say("    by its name alone, a moment later:")
watch(lambda: heat("GET", "/stacks/plain", show=False), status, lambda a: False)
for query in ("", "?show_deleted=true"):
    found = ok(heat("GET", "/stacks" + query, show=False))["stacks"]
    say(f"    a list{query} shows {[(each['stack_name'], each['stack_status']) for each in found]}")
heat("DELETE", "/stacks/nosuch", note="no such stack")

p = stack("members", who=demo)
heat("DELETE", p, note="as a member", who=demo)
follow(p, who=demo)

head("what keeps a stack")
p = stack("busy")
port = cloud.network.create_port(network_id=physical(p, "n"), name="foreign")
heat("DELETE", p, note="with a port of somebody else on its network")
follow(p, 240)
say(f"    its resources: {[(each['resource_name'], each['resource_status']) for each in resources(p)]}")
cloud.network.delete_port(port.id)
heat("DELETE", p, note="again, the port is gone")
follow(p)
p = stack("drift")
cloud.network.delete_network(physical(p, "n"))
heat("DELETE", p, note="its network was deleted in Neutron")
follow(p)
p = with_server("retain")
v = physical(p, "kept")
call("DELETE", "compute", f"/servers/{physical(p, 'server')}", note="its server, in Nova")
heat("DELETE", p, note="the stack, which has a volume with deletion_policy Retain")
follow(p)
a = call("GET", "block-storage", f"/volumes/{v}", show=False)
say(f"    that volume: {a.status_code} {a.json()['volume']['status']}")
misbehave("nova", "delete-fails", "failing")
p = with_server("failing")
heat("DELETE", p, note="the hypervisor of its server refuses")
follow(p)
misbehave("nova", "well")
heat("DELETE", p, note="again, the hypervisor is well")
follow(p)
misbehave("nova", "delete-hangs", "hanging")
p = with_server("hanging")
heat("DELETE", p, note="the hypervisor of its server hangs")
follow(p, 20)
heat("DELETE", p, note="again meanwhile")
misbehave("nova", "well")
follow(p, 120)

head("nested stacks, abandon")
p = stack("abandoned")
n = physical(p, "n")
heat("DELETE", p + "/abandon", note="abandon", cut=150)
p = stack("parent", {"g": {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": {"type": "OS::Heat::RandomString"}}}})
nested = [each for each in ok(heat("GET", "/stacks?show_nested=true", show=False))["stacks"] if each["parent"]]
say(f"    a list?show_nested=true shows {len(nested)} with a parent")
path = f"/stacks/{nested[0]['stack_name']}/{nested[0]['id']}"
heat("DELETE", f"/stacks/NAME/{nested[0]['id']}", note="nested stack, by another name")
heat("DELETE", path, note="nested stack")
follow(path)
heat("DELETE", p, note="its parent")
follow(p)
