"""All of Nova in one process: uWSGI serves the API; conductor, scheduler and compute are threads beside it.

They talk over oslo.messaging's fake:/ bus, which is global to a process.
"""
from nova.wsgi import osapi_compute   # first of all: it chooses threads, and reads the configuration

import nova.conf
import nova_driver
import os_vif
import switches
from nova import context, service
from nova.compute import rpcapi as compute_rpcapi
from nova.conductor import rpcapi as conductor_rpcapi
from nova.objects import host_mapping
from nova.scheduler import rpcapi as scheduler_rpcapi
from nova.virt import fake



def application(environ, start_response):
    # A setting that some clouds have: a deleted server can be restored for this many seconds.
    nova.conf.CONF.set_override("reclaim_instance_interval", int(switches.value("soft-delete") or 0))
    return osapi_compute.application(environ, start_response)


fake.TestbedDriver = nova_driver.TestbedDriver   # nova.conf: compute_driver = fake.TestbedDriver
os_vif.initialize()
services = [service.Service.create(binary=binary, topic=topic, topic_alt=alternative) for binary, topic, alternative in (
    ("nova-conductor", conductor_rpcapi.RPC_TOPIC, None),
    ("nova-scheduler", scheduler_rpcapi.RPC_TOPIC, None),
    ("nova-compute", compute_rpcapi.RPC_TOPIC, compute_rpcapi.RPC_TOPIC_ALT))]
for each in services:
    each.start()
host_mapping.discover_hosts(context.get_admin_context())   # only needed at the first start
