"""Barbican's API. It looks for its configuration only in fixed places of the system, so this replaces that search."""
import os

from oslo_config import cfg
from paste import deploy

FOLDER = os.environ["TESTBED_CONF"] + "/barbican"
cfg.find_config_files = lambda *args, **kwargs: [FOLDER + "/barbican.conf"]
application = deploy.loadapp(f"config:{FOLDER}/barbican-api-paste.ini")
