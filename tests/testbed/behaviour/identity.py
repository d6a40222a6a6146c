"""Provokes the answers of Keystone to deletions that BEHAVIOUR.md lists."""
from calls import call, cloud, demo, head, ok


def keystone(method, path, body=None, note="", **more):
    return call(method, "identity", path, body, note=note, **more)


def make(path, kind, who=cloud, **fields):
    return ok(keystone("POST", path, {kind: fields}, show=False, who=who))[kind]["id"]


def make_limits(path, kind, **fields):
    return ok(keystone("POST", path, {kind: [fields]}, show=False))[kind][0]["id"]


head("projects and domains")
p = make("/projects", "project", name="p", domain_id="default")
n = cloud.network.create_network(name="left", project_id=p)
u = make("/users", "user", name="u", domain_id="default", password="x", default_project_id=p)
keystone("DELETE", f"/projects/{p}", who=demo, note="project, as a member")
keystone("DELETE", f"/projects/{p}", note="project with a network")
keystone("DELETE", f"/projects/{p}", note="again")
call("GET", "network", f"/networks/{n.id}?fields=id&fields=project_id", note="its network")
d = make("/domains", "domain", name="d")
a = make("/projects", "project", name="a", domain_id=d)
b = make("/projects", "project", name="b", domain_id=d, parent_id=a)
keystone("DELETE", f"/projects/{a}", note="project with a child")
keystone("DELETE", f"/domains/{d}", note="enabled domain")
keystone("PATCH", f"/domains/{d}", {"domain": {"enabled": False}}, show=False)
keystone("DELETE", f"/domains/{d}", note="disabled domain with projects")
keystone("GET", f"/projects/{b}", note="its project")
keystone("DELETE", "/domains/default", note="the default domain")
keystone("DELETE", "/projects/nosuch", note="no such project")

head("users, roles, credentials")
r, s = make("/roles", "role", name="r"), make("/roles", "role", name="s")
keystone("PUT", f"/roles/{r}/implies/{s}", show=False)
keystone("PUT", f"/projects/{demo.current_project_id}/users/{u}/roles/{r}", show=False)
keystone("DELETE", f"/roles/{r}", note="role that is assigned and implies another")
keystone("DELETE", f"/users/{u}", note="user")
keystone("DELETE", f"/users/{u}", note="again")
me = demo.current_user_id
c = make(f"/users/{me}/application_credentials", "application_credential", demo, name="c")
keystone("DELETE", f"/users/{me}/application_credentials/{c}", note="application credential", who=demo)
keystone("DELETE", f"/users/{me}", note="oneself, as a member", who=demo)

head("regions, services, endpoints, limits")
make("/regions", "region", id="R")
make("/regions", "region", id="S", parent_region_id="R")
s = make("/services", "service", type="t", name="x")
e = make("/endpoints", "endpoint", service_id=s, region_id="S", interface="public", url="http://x")
registered = make_limits("/registered_limits", "registered_limits", service_id=s, resource_name="x", default_limit=1)
limit = make_limits("/limits", "limits", service_id=s, project_id=demo.current_project_id, resource_name="x", resource_limit=2)
keystone("DELETE", "/regions/R", note="region with a child")
keystone("DELETE", "/regions/S", note="region with an endpoint")
keystone("DELETE", f"/registered_limits/{registered}", note="registered limit in use")
keystone("DELETE", f"/services/{s}", note="service with an endpoint and limits")
keystone("GET", f"/endpoints/{e}", note="its endpoint")
keystone("DELETE", f"/limits/{limit}", note="limit")
keystone("DELETE", f"/registered_limits/{registered}", note="registered limit")
keystone("DELETE", "/regions/R", note="region with a child, without an endpoint")
keystone("GET", "/regions/S", note="the child")
