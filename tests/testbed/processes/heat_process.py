"""Heat in one process: uWSGI serves the API, the engine is a thread beside it, over oslo.messaging's fake:/ bus."""
from oslo_service import backend
backend.init_backend(backend.BackendType.THREADING)   # before Heat imports what depends on it

from heat.api.openstack import wsgi              # noqa: E402
application = wsgi.init_application()            # reads the configuration

from heat.common import config                   # noqa: E402, F401: options of the engine
from heat.engine import service, template        # noqa: E402
from heat.rpc import api                         # noqa: E402
from oslo_config import cfg                      # noqa: E402

template._get_template_extension_manager()       # loaded here, as threads would load it twice
engine = service.EngineService(cfg.CONF.host, api.ENGINE_TOPIC)
engine.start()
