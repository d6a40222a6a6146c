"""Designate in one process: uWSGI serves the API; central, mdns, worker and producer are threads beside it.

They talk over oslo.messaging's fake:/ bus, which is global to a process.
"""
import os

from oslo_service import backend
backend.init_backend(backend.BackendType.THREADING)   # before Designate imports what depends on it

from designate.api import wsgi                        # noqa: E402
application = wsgi.init_application()                 # reads the configuration

import switches                                       # noqa: E402
from designate import exceptions                      # noqa: E402
from designate.backend import impl_fake               # noqa: E402
from designate.central import service as central      # noqa: E402
from designate.manage.pool import PoolCommands        # noqa: E402
from designate.mdns import service as mdns            # noqa: E402
from designate.producer import service as producer    # noqa: E402
from designate.worker import service as worker        # noqa: E402


def delete_zone(self, context, zone, zone_params=None):
    if switches.concerns("delete-fails", zone.name):
        raise exceptions.Backend("the testbed's delete-fails")


impl_fake.FakeBackend.delete_zone = delete_zone
services = [central.Service()]
services[0].start()
# What "designate-manage pool update" does; central has to run, and it is in this process.
PoolCommands().update(os.environ["OS_DESIGNATE_CONFIG_DIR"] + "/pools.yaml", False)
for each in (mdns.Service(), worker.Service(), producer.Service()):
    each.start()
    services.append(each)
