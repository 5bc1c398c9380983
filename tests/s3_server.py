"""moto's S3 server on a port of this machine, one request at a time.

Of a conditional put, moto looks whether the object exists, and stores it later: of two at once it would take both.
Below `drop-N-before/` and `drop-N-after/`, the connection of the first N conditional puts of each object drops, before
or after it is stored.
"""

import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

_app = DomainDispatcherApplication(create_backend_app)
_one_request = threading.Lock()
_DROPPING = re.compile(r"/drop-(?P<number>\d+)-(?P<moment>before|after)/")
_dropped: Counter[str] = Counter()


def _answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    with _one_request:
        path = environ["PATH_INFO"]
        dropping = _DROPPING.search(path) if "HTTP_IF_NONE_MATCH" in environ else None
        if dropping is None or _dropped[path] == int(dropping["number"]):
            return list(_app(environ, start_response))
        _dropped[path] += 1
        if dropping["moment"] == "after":
            list(_app(environ, start_response))
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return []


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), _answer, threaded=True, request_handler=MotoRequestHandler)
