"""moto's S3 server on a port of this machine, one request at a time.

Of a conditional put, moto looks whether the object exists, and stores it later: of two at once it would take both.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

_app = DomainDispatcherApplication(create_backend_app)
_one_request = threading.Lock()


def _answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    with _one_request:
        return list(_app(environ, start_response))


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), _answer, threaded=True, request_handler=MotoRequestHandler)
