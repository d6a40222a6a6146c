"""Manila's own dummy driver, for shares without storage, with and without share servers.

It has the misbehaviour that misbehave switches on for shares and snapshots by their names.
"""
import switches
from manila import db, exception
from manila.tests.share.drivers import dummy


def fail_if(switch, name):
    if switches.concerns(switch, name):
        raise exception.ShareBackendException(msg=f"the testbed's {switch}")


def make(name):
    fail_if("create-fails", name)
    switches.delay("create-slow", name)


def remove(name):
    fail_if("delete-fails", name)
    switches.delay("delete-slow", name)
    switches.wait_while("delete-hangs", name)


def share_name(context, share):
    return db.share_get(context.elevated(), share["share_id"])["display_name"]


def snapshot_name(context, snapshot):
    try:
        return db.share_snapshot_get(context.elevated(), snapshot["snapshot_id"])["display_name"]
    except exception.NotFound:
        return None   # the snapshot of a group


class Driver(dummy.DummyDriver):
    def create_share(self, context, share, share_server=None):
        make(share_name(context, share))
        return super().create_share(context, share, share_server)

    def delete_share(self, context, share, share_server=None):
        remove(share_name(context, share))
        super().delete_share(context, share, share_server)

    def create_snapshot(self, context, snapshot, share_server=None):
        make(snapshot_name(context, snapshot))
        return super().create_snapshot(context, snapshot, share_server)

    def delete_snapshot(self, context, snapshot, share_server=None):
        remove(snapshot_name(context, snapshot))
        super().delete_snapshot(context, snapshot, share_server)

    def delete_replica(self, context, replicas, snapshots, replica, share_server=None):
        remove(share_name(context, replica))
        super().delete_replica(context, replicas, snapshots, replica, share_server)

    def get_admin_network_allocations_number(self):
        return 0   # no network of the operator

    def _setup_server(self, network_info, metadata=None):
        address = network_info[0]["network_allocations"][0]
        info = [{**each, "admin_network_allocations": [address]} for each in network_info]
        return super()._setup_server(info, metadata)
