"""All of Swift in one process: the proxy, and beside it the account, container and object servers, which it asks.

There are no daemons: what an account's listing says of the number of objects is never brought up to date.
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
