"""What misbehaves now: a file for each switch, named SERVICE.SWITCH, which holds the switch's value."""
import os
import time

SERVICE = os.environ["TESTBED_SERVICE"]
SWITCHES = os.environ["TESTBED_SWITCHES"]


def value(name):
    """The value of a switch of this service; None if the switch is off."""
    try:
        with open(f"{SWITCHES}/{SERVICE}.{name}") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def is_on(name):
    return value(name) is not None


def concerns(name, resource):
    """Is the switch on for a resource of this name? Its value is a part of the names that it is on for."""
    part = value(name)
    return part is not None and part in (resource or "")


def wait_while(name, resource):
    while concerns(name, resource):
        time.sleep(0.2)


def delay(name, resource):
    if concerns(name, resource):
        time.sleep(5)
