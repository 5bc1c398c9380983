"""Environment variables that change how a program runs on a GPU: the only ones that a run folder records."""

import re
from collections.abc import Mapping

_RECORDED = re.compile(
    r"(?:NCCL|TORCH_NCCL|RCCL|UCX|FI|GLOO|HSA)_\w+"
    r"|PYTORCH_(?:\w+_)?ALLOC_CONF|PYTORCH_NO_\w+|TORCH_(?:ALLOW|BLAS|CUDNN|LOGS|COMPILE)\w*"
    r"|TORCHINDUCTOR_\w+|TORCHDYNAMO_\w+|TEARDOWN_CUPTI|DISABLE_CUPTI_LAZY_REINIT|KINETO_\w+"
    r"|NVIDIA_TF32_OVERRIDE|CUDA_(?:LAUNCH_BLOCKING|VISIBLE_DEVICES|DEVICE_ORDER|DEVICE_MAX_CONNECTIONS|MODULE_LOADING"
    r"|CACHE_DISABLE|MPS_ACTIVE_THREAD_PERCENTAGE)|CUBLAS(?:LT)?_WORKSPACE_\w+|CUDNN_\w+|MIOPEN_\w+"
    r"|(?:HIP|ROCR)_VISIBLE_DEVICES|(?:OMP|MKL|OPENBLAS)_NUM_THREADS|OMP_(?:PROC_BIND|PLACES)|KMP_\w+"
)
_LEFT_OUT = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|COMM_ID|ADDR")
"""Parts of names whose values identify a machine or grant access, should a library add one."""


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded variables; of a path only the last part: run folders may be shared."""
    return {
        name: _hide_folders(value)
        for name, value in sorted(environment.items())
        if _RECORDED.fullmatch(name) and not _LEFT_OUT.search(name)
    }


def _hide_folders(value: str) -> str:
    return re.sub(r"(?:~|\.{1,2})?(?:/[^/,;:\s]*)+/", "", value)
