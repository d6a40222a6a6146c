"""Provokes the answers of Swift that BEHAVIOUR.md lists."""
import json
import re
from urllib.parse import quote

import openstack
import requests

from calls import cloud, demo, head, ok, say

STAMP = re.compile(r"\b\d{10}\.\d{5}\b")
stamps = {}


def mask(text):
    text = re.sub(r"AUTH_[0-9a-f]{32}", "ACCOUNT", text)
    text = re.sub(r"tx[0-9a-f]{21}-[0-9a-f]{10}", "TX", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", "TIME", text)
    return STAMP.sub(lambda found: f"<stamp {stamps.setdefault(found.group(), len(stamps) + 1)}>", text)


def account(who=demo, of=None):
    of = of or who
    own = of.current_project_id
    return who.session.get_endpoint(service_type="object-store", interface="public").replace(who.current_project_id, own)


HEADERS = ("x-timestamp", "x-put-timestamp", "etag", "x-container-object-count", "x-object-version-id", "x-versions-enabled",
           "x-static-large-object", "content-type", "x-trans-id", "x-openstack-request-id", "content-location")


def swift(method, path, body=None, note="", who=demo, of=None, show=True, headed=False, **headers):
    headers = {name.replace("_", "-"): text for name, text in headers.items()}
    shown = "".join(f"  {name}: {text}" for name, text in headers.items())
    headers |= {"X-Auth-Token": who.auth_token, "Accept": "application/json"}
    request = requests.Request(method, account(who, of) + path, data=body, headers=headers).prepare()
    answer = requests.Session().send(request, timeout=60)
    if show:
        told = [f"{name}: {answer.headers[name]}" for name in HEADERS if headed and name in answer.headers]
        text = answer.text if len(answer.text) < 1200 else answer.text[:1200] + " ..."
        say(mask(f"{note + ': ' if note else ''}{method} {path}{shown}\n    -> {answer.status_code} {text.rstrip()}"))
        for line in told:
            say(mask(f"       {line}"))
    return answer


def put(path, body="x", **more):
    answer = swift("PUT", path, body, show=False, **more)
    assert answer.ok, answer.text
    return answer


def rows(path, who=demo, **more):
    return swift("GET", path, show=False, who=who, **more).json()


head("containers")
swift("GET", "", note="an account that nobody has used", headed=True)
put("/c", body=None)
swift("GET", "", note="list")
swift("HEAD", "/c", note="one", headed=True)
swift("GET", "?prefix=c&limit=1", note="by a prefix")
put("/c", body=None)
swift("HEAD", "/c", note="put again", headed=True)
put("/c/o")
swift("DELETE", "/c", note="with an object", headed=True)
swift("DELETE", "/c/o", note="the object", headed=True)
swift("DELETE", "/c/o", note="again", headed=True)
swift("HEAD", "/c/o", note="gone", headed=True)
swift("DELETE", "/c", note="empty", headed=True)
swift("DELETE", "/c", note="again", headed=True)
swift("HEAD", "/c", note="gone", headed=True)
swift("GET", "/c", note="its list", headed=True)
put("/c", body=None)
swift("HEAD", "/c", note="created again", headed=True)

head("objects")
put("/c/a%2Fb", "data")
put("/c/100%25%3F%23")
swift("GET", "/c", note="list")
swift("GET", "/c?versions=true", note="with versions")
swift("HEAD", "/c/a/b?version-id=null", note="one", headed=True)
put("/c/a%2Fb", "other")
swift("HEAD", "/c/a%2Fb?version-id=null", note="put again", headed=True)
swift("POST", "/c/a%2Fb", note="changed", X_Object_Meta_A="b")
swift("HEAD", "/c/a%2Fb?version-id=null", note="then", headed=True)
swift("GET", "/c?prefix=a", note="and in the list")
swift("DELETE", "/c/a%2Fb?version-id=1764300000.00000", note="of a version, where none are kept")
swift("DELETE", "/c/a%2Fb?version-id=null", note="of no version")
swift("GET", "/c?limit=1&marker=zzz", note="after the last")
swift("GET", "/c?limit=20000", note="more than a list may have")

head("large objects")
put("/parts", body=None)
put("/parts/1", "1" * 10)
manifest = json.dumps([{"path": "/parts/1"}])
put("/c/slo?multipart-manifest=put", manifest)
put("/c/dlo", "", X_Object_Manifest="parts/1")
swift("GET", "/c?prefix=slo", note="static")
swift("HEAD", "/c/slo", note="read", headed=True)
swift("HEAD", "/c/slo?symlink=get&multipart-manifest=get&version-id=null", note="its manifest", headed=True)
swift("HEAD", "/c/dlo", note="dynamic", headed=True)
swift("HEAD", "/c/dlo?symlink=get&multipart-manifest=get&version-id=null", note="its manifest", headed=True)
swift("GET", "/c?prefix=dlo", note="listed")
swift("DELETE", "/c/slo?version-id=null", note="the manifest alone")
swift("GET", "/parts", note="its segments")
put("/c/slo?multipart-manifest=put", manifest)
swift("DELETE", "/c/slo?multipart-manifest=delete", note="with its segments")
swift("GET", "/parts", note="they are gone")

head("links")
put("/c/link", "", X_Symlink_Target="c/nothing")
swift("HEAD", "/c/link?version-id=null", note="a link to nothing", headed=True)
swift("HEAD", "/c/link?symlink=get&multipart-manifest=get&version-id=null", note="the link", headed=True)
swift("DELETE", "/c/link?version-id=null")

head("versions")
put("/v", body=None)
put("/v/before")
swift("POST", "/v", note="versions are kept", X_Versions_Enabled="true")
put("/v/o", "1")
put("/v/o", "22")
put("/v/p", "1")
swift("DELETE", "/v/p", note="a delete that keeps")
swift("GET", "/v", note="list")
swift("GET", "/v?versions=true", note="with versions")
swift("HEAD", "/v", note="the container", headed=True)
listed = rows("/v?versions=true")
for row in listed:
    name = f"/v/{row['name']}?symlink=get&multipart-manifest=get&version-id={row['version_id']}"
    swift("HEAD", name, note=f"{row['content_type']}", headed=True)
pages, after = [], ""
while page := rows(f"/v?versions=true&limit=1{after}"):
    pages += page
    after = f"&marker={quote(page[-1]['name'])}&version_marker={page[-1]['version_id']}"
say(f"    in pages of one row, all of them: {pages == listed}")
swift("DELETE", "/v/o", note="a delete of the newest")
for row in listed:
    swift("DELETE", f"/v/{row['name']}?version-id={row['version_id']}", note="each version")
swift("GET", "/v", note="list")
swift("DELETE", "/v", note="with what the delete of the newest left")
for row in rows("/v?versions=true"):
    swift("DELETE", f"/v/{row['name']}?version-id={row['version_id']}")
    swift("DELETE", f"/v/{row['name']}?version-id={row['version_id']}", note="again")
swift("DELETE", "/v", note="then")

head("accounts of others")
put("/c", body=None)
swift("GET", "", note="as the role of all accounts", who=cloud, of=demo)
swift("GET", "", note="as a member of another project", who=demo, of=cloud, headed=True)
swift("GET", "/c", note="a container there", who=demo, of=cloud)
project = cloud.identity.create_project(name="behaviour", domain_id="default")
user = cloud.identity.create_user(name="behaviour", password="secret", domain_id="default")
cloud.identity.assign_project_role_to_user(project, user, cloud.identity.find_role("admin"))
admin = openstack.connect(cloud="testbed", auth={"username": "behaviour", "project_name": "behaviour"})
swift("GET", "", note="as an admin without that role", who=admin, of=demo)
