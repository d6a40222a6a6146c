"""All of Swift in one process: the proxy, and the account, container and object servers that it calls.

There are no daemons, so the numbers of objects in the list of an account are never updated.
"""
import os

import eventlet
from eventlet import wsgi
from swift.common import utils

FOLDER = os.environ["TESTBED_CONF"] + "/swift"
PORT = int(os.environ["SWIFT_PORT"])
utils.set_swift_dir(FOLDER)   # before anything reads /etc/swift

from swift.common.http_protocol import SwiftHttpProtocol   # noqa: E402
from swift.common.wsgi import loadapp                      # noqa: E402
from swift_rings import ADDRESSES                          # noqa: E402

for name, address in ADDRESSES.items():
    listener = eventlet.listen((address, PORT), backlog=512)
    server = loadapp(f"{FOLDER}/{name}-server.conf")
    eventlet.spawn(wsgi.server, listener, server, protocol=SwiftHttpProtocol, log_output=False, keepalive=False)
application = loadapp(f"{FOLDER}/proxy-server.conf")
