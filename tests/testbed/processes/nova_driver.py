"""Nova's own fake driver, with the misbehaviour that `misbehave` switches on for servers with a name."""
import switches
from nova import exception
from nova.virt import fake


class TestbedDriver(fake.FakeDriverWithoutFakeNodes):
    def spawn(self, context, instance, *args, **kwargs):
        name = instance.display_name
        if switches.concerns("create-fails", name):
            raise exception.InstanceDeployFailure(reason="the testbed's create-fails")
        switches.delay("create-slow", name)
        return super().spawn(context, instance, *args, **kwargs)

    def destroy(self, context, instance, *args, **kwargs):
        name = instance.display_name
        switches.delay("delete-slow", name)
        switches.wait_while("delete-hangs", name)
        if switches.concerns("delete-fails", name):
            raise exception.InstanceTerminationFailure(reason="the testbed's delete-fails")
        return super().destroy(context, instance, *args, **kwargs)

    def detach_volume(self, context, connection_info, instance, *args, **kwargs):
        self.detach(instance)
        return super().detach_volume(context, connection_info, instance, *args, **kwargs)

    def detach_interface(self, context, instance, vif):
        self.detach(instance)
        return super().detach_interface(context, instance, vif)

    @staticmethod
    def detach(instance):
        name = instance.display_name
        switches.delay("detach-slow", name)
        if switches.concerns("detach-fails", name):
            raise exception.DeviceDetachFailed(device="testbed", reason="the testbed's detach-fails")
