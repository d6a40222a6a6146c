"""A volume driver without storage: each volume and snapshot is an empty file.

It has the misbehaviour that misbehave switches on for volumes and snapshots by their names.
"""
import io
import os

import switches
from cinder import exception, interface
from cinder.volume import driver

FOLDER = os.environ["TESTBED_DATA"] + "/cinder/volumes"


def fail_if(switch, name):
    if switches.concerns(switch, name):
        raise exception.VolumeBackendAPIException(data=f"the testbed's {switch}")


def path(thing):
    return f"{FOLDER}/volume-{thing.id}"


def make(thing):
    fail_if("create-fails", thing.display_name)
    switches.delay("create-slow", thing.display_name)
    open(path(thing), "w").close()


def remove(thing, busy):
    name = thing.display_name
    if switches.concerns("delete-busy", name):
        raise busy
    fail_if("delete-fails", name)
    switches.delay("delete-slow", name)
    switches.wait_while("delete-hangs", name)
    if os.path.exists(path(thing)):
        os.remove(path(thing))


@interface.volumedriver
class Driver(driver.VolumeDriver):
    VERSION = "1.0"
    CI_WIKI_NAME = "none"

    def check_for_setup_error(self):
        os.makedirs(FOLDER, exist_ok=True)

    def create_volume(self, volume):
        make(volume)

    def create_volume_from_snapshot(self, volume, snapshot):
        make(volume)

    def create_cloned_volume(self, volume, source):
        make(volume)

    def create_snapshot(self, snapshot):
        make(snapshot)

    def clone_image(self, context, volume, location, image, service):
        make(volume)
        return {}, True

    def delete_volume(self, volume):
        remove(volume, exception.VolumeIsBusy(volume_name=volume.name))

    def delete_snapshot(self, snapshot):
        remove(snapshot, exception.SnapshotIsBusy(snapshot_name=snapshot.name))

    def copy_volume_to_image(self, context, volume, service, image):
        service.update(context, image["id"], {}, io.BytesIO(b"testbed"))

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector):
        return {"driver_volume_type": "local", "data": {"device_path": path(volume)}}

    def terminate_connection(self, volume, connector, **kwargs):
        fail_if("detach-fails", volume.display_name)

    def _update_volume_stats(self):
        self._stats = {
            "volume_backend_name": "testbed", "vendor_name": "testbed", "driver_version": self.VERSION,
            "storage_protocol": "local", "pools": [{
                "pool_name": "pool", "total_capacity_gb": 1000000, "free_capacity_gb": 900000,
                "allocated_capacity_gb": 0, "reserved_percentage": 0, "multiattach": True,
                "thin_provisioning_support": True, "thick_provisioning_support": False,
                "max_over_subscription_ratio": "1000.0", "provisioned_capacity_gb": 0}]}
