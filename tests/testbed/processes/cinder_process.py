"""All of Cinder in one process: uWSGI serves the API; scheduler, volume and backup are threads beside it.

They talk over oslo.messaging's fake:/ bus, which is global to a process.
"""
import os
import shlex

os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "true"
from cinder import monkey_patch   # noqa: E402
monkey_patch.patch()              # before all else of Cinder

import os_brick                                    # noqa: E402
from cinder import service, utils                  # noqa: E402
from cinder.cmd import backup, volume              # noqa: E402, F401: their options, before the configuration is read
from cinder.volume import volume_utils             # noqa: E402
from cinder.wsgi import api                        # noqa: E402: reads the configuration
from oslo_config import cfg                        # noqa: E402
from oslo_privsep import priv_context              # noqa: E402

application = api.application
CONF = cfg.CONF
BACKEND = "testbed"
# A backup would read the iSCSI initiator and the NVMe ids of the machine by sudo. Here they are invented.
volume_utils.brick_get_connector_properties = lambda *args, **kwargs: {
    "platform": "x86_64", "os_type": "linux", "ip": "127.0.0.1", "host": CONF.host, "multipath": False}
priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
os_brick.setup(CONF)
CONF.register_opt(volume.host_opt, group=BACKEND)
services = [service.Service.create(**kwargs) for kwargs in (
    dict(binary="cinder-scheduler"),
    dict(binary="cinder-volume", host=f"{CONF.host}@{BACKEND}", service_name=BACKEND, coordination=True),
    dict(binary="cinder-backup", service_name="backup", coordination=True, process_number=1,
         semaphore=utils.semaphore_factory(CONF.backup_max_operations, 1)))]
for each in services:
    each.start()
