"""All of Manila in one process: uWSGI serves the API; scheduler and the three storages are threads beside it.

They talk over oslo.messaging's fake:/ bus, which is global to a process.
"""
import os

os.environ["OS_MANILA_DISABLE_EVENTLET_PATCHING"] = "true"
from manila import monkey_patch
monkey_patch.patch()              # before all else of Manila: it chooses threads

from manila import service        # noqa: E402
from manila.share import manager  # noqa: E402
from oslo_config import cfg       # noqa: E402

CONF = cfg.CONF
# Both the share manager and the API declare these options. Manila itself never runs both in one process.
CONF.unregister_opts(manager.ks_opts, manager.KEYSTONE_AUTHTOKEN_GROUP)
from manila.wsgi import api       # noqa: E402: reads the configuration

application = api.application
services = [service.Service.create(binary="manila-scheduler", coordination=True)]
services.extend(service.Service.create(binary="manila-share", host=f"{CONF.host}@{backend}", service_name=backend,
                                       coordination=True) for backend in CONF.enabled_share_backends)
for each in services:
    each.start()
