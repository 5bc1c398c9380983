"""Wait for the import of torch in a recorded program, then install the recording; run the program's own sitecustomize.

Python imports this file at start-up. It must cost almost nothing in a process that never imports torch, and run on any
Python 3, so it imports only modules that start-up has imported, and nothing of tracelab until torch is there.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_VARIABLE = "TRACELAB_RECORDING"


class _TorchFinder:
    """Finder that handles only torch, and leaves once torch is imported."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._started = time.time()
        self._searching = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":  # noqa: ARG002
        """Return torch's own spec, with a loader that installs the recording after torch was executed."""
        if name != "torch" or self._searching:
            return None
        from importlib.util import find_spec

        self._searching = True
        try:
            spec = find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:  # a program may search for torch and never import it
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_install(module: "ModuleType") -> None:
                loader.exec_module = execute
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                execute(module)
                _install(self._task, module, self._started)

            loader.exec_module = execute_and_install
        return spec


def _install(task: str, torch: "ModuleType", started: float) -> None:
    """Import tracelab from where the recording command runs, and start its recording; never fail the program."""
    try:
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
        if "tracelab" not in sys.modules:  # not through sys.path, which would expose the packages beside tracelab
            from importlib.util import module_from_spec, spec_from_file_location

            start = os.path.join(package, "__init__.py")  # noqa: PTH118
            spec = spec_from_file_location("tracelab", start, submodule_search_locations=[package])
            sys.modules["tracelab"] = module_from_spec(spec)  # type: ignore[arg-type]
            spec.loader.exec_module(sys.modules["tracelab"])  # type: ignore[union-attr]
        from tracelab.collect.recording.hook import install

        install(task, torch, started)
    except Exception as error:  # noqa: BLE001  any error here is the recording's, not the program's
        _note(task, "hook-error", "%s: %s (Python %s)" % (type(error).__name__, error, sys.version.split()[0]))  # noqa: UP031


def _note(task: str, name: str, text: str) -> None:
    """Write a small file beside the task; the first process that has something to write does so."""
    try:
        path = os.path.join(os.path.dirname(task), name)  # noqa: PTH118, PTH120
        if not os.path.exists(path):  # noqa: PTH110
            with open(path, "w") as file:  # noqa: PTH123
                file.write(text)
    except OSError:
        pass


def _run_next_sitecustomize() -> None:
    """Execute the sitecustomize that this file hides, if the program's environment has one."""
    from _frozen_importlib import module_from_spec  # importlib.util would import more at each start
    from _frozen_importlib_external import PathFinder

    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    elsewhere = [path for path in sys.path if os.path.abspath(path) != own]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sitecustomize"])


if __name__ == "sitecustomize":
    if os.environ.get(_VARIABLE):
        _note(os.environ[_VARIABLE], "python-started", sys.version)
        sys.meta_path.insert(0, _TorchFinder(os.environ[_VARIABLE]))
    _run_next_sitecustomize()
