"""Install the fake CUDA in ranks that start as new processes, as under nsys and ncu."""

import os
import sys
from pathlib import Path

RANKS = {"tracelab.collect.training.worker", "tracelab.collect.ceilings.links"}
# argv is that of `python -m`: nsys and ncu are also started with the worker's module among their arguments.
if "FAKE_CUDA_GPUS" in os.environ and sys.argv[0] == "-m" and RANKS & set(sys.orig_argv):
    sys.path.append(str(Path(__file__).parents[4]))
    from tests.collect import fake_cuda

    fake_cuda.install_from_environment(Path(sys.orig_argv[-1]).name)
