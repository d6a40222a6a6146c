"""Barbican's API, which looks for its configuration in fixed places of the system only, and nowhere else."""
import os

from oslo_config import cfg
from paste import deploy

FOLDER = os.environ["TESTBED_CONF"] + "/barbican"
cfg.find_config_files = lambda *args, **kwargs: [FOLDER + "/barbican.conf"]
application = deploy.loadapp(f"config:{FOLDER}/barbican-api-paste.ini")
