"""Reads the switches of `misbehave`. Each switch that is on is a file, named SERVICE.SWITCH, with the switch's value."""
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
    """Whether the switch is on for a resource of this name. It is on for all names that contain its value."""
    part = value(name)
    return part is not None and part in (resource or "")


def wait_while(name, resource):
    while concerns(name, resource):
        time.sleep(0.2)


def delay(name, resource):
    if concerns(name, resource):
        time.sleep(5)
