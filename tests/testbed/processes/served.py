"""The WSGI application of each service: the service's own one, whose answers `misbehave` can change."""
import importlib
import json
import os
import re
import time

import switches

# The answer of a proxy before a service that does not answer.
FRONT = "<html><body><h1>{}</h1>\nNo server is available to handle this request.\n</body></html>\n"
REASONS = {429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
           503: "Service Unavailable", 504: "Gateway Timeout"}
LAST_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
NOBODY = "11111111-2222-4333-8444-555555555555"


class Served:
    def __init__(self, application):
        self.application = application

    def __call__(self, environ, start_response):
        while switches.is_on("hangs"):
            time.sleep(0.2)
        time.sleep(float(switches.value("slow") or 0))
        status = switches.value("fails")
        if status is not None:
            return refuse(start_response, int(status))
        if switches.is_on("busy"):
            return refuse(start_response, 429, ("Retry-After", "1"))
        method, single = environ["REQUEST_METHOD"], LAST_ID.search(environ["PATH_INFO"])
        if method == "DELETE" and switches.is_on("lying-delete"):
            start_response("204 No Content", [])
            return []
        if method == "GET" and single and switches.is_on("lying-get"):
            return self.hide(environ, start_response, single.group())
        if method == "GET" and not single and switches.is_on("lying-list"):
            return self.empty(environ, start_response)
        return self.application(environ, start_response)

    def ask(self, environ):
        answer = []
        body = b"".join(self.application(environ, lambda *args: answer.extend(args)))
        return answer[0], [header for header in answer[1] if header[0].lower() != "content-length"], body

    def hide(self, environ, start_response, resource):
        """Answers as the service does for a resource that does not exist."""
        environ["PATH_INFO"] = environ["PATH_INFO"].removesuffix(resource) + NOBODY
        status, headers, body = self.ask(environ)
        body = body.replace(NOBODY.encode(), resource.encode())
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def empty(self, environ, start_response):
        """Answers with the service's own list, without its rows and its link to the next page."""
        status, headers, body = self.ask(environ)
        if "json" in dict((name.lower(), text) for name, text in headers).get("content-type", ""):
            content = json.loads(body)
            if isinstance(content, dict) and "versions" not in content:
                body = json.dumps({key: [] if isinstance(rows, list) else rows for key, rows in content.items()}).encode()
            if isinstance(content, list):   # Swift's
                body = b"[]"
        start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]


def refuse(start_response, status, *headers):
    line = f"{status} {REASONS.get(status, 'Error')}"
    start_response(line, [("Content-Type", "text/html"), *headers])
    return [FRONT.format(line).encode()]


application = Served(importlib.import_module(os.environ["TESTBED_APPLICATION"]).application)
