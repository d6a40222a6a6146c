"""served_by_eventlet.py HOST PORT: serves Swift, whose parts must run in the eventlet hub of one thread, unlike uWSGI's threads."""
import sys

import eventlet
eventlet.monkey_patch()   # before anything else is imported

from eventlet import wsgi                                  # noqa: E402

import served                                              # noqa: E402
from swift.common.http_protocol import SwiftHttpProtocol   # noqa: E402

host, port = sys.argv[1:]
wsgi.server(eventlet.listen((host, int(port)), backlog=512), served.application, protocol=SwiftHttpProtocol, log_output=False,
            keepalive=False, max_size=256)
