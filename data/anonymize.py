"""Remove from a recorded trace whatever identifies the machine it was recorded on."""

import re
import uuid
from pathlib import Path

HOST_NAME = re.compile(r'\n *"host_name": "[^"]*",')
TRACE_NAME = re.compile(r'"traceName": "[^"]*"')
HOST = re.compile(r'"host": ?"[^"]*"')
RUN = re.compile(r'"run": ?"[^"]*"')
COMMIT = re.compile(r'\n *"git_commit": "[^"]*",')
UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ABOVE_PACKAGES = re.compile(r'(?<=")/[^"]*/(?:site-packages|dist-packages|lib/python3\.\d+)/')


def scrub(text: str, name: str, checkout: Path) -> str:
    """Drop the host's name and the folders above packages and above this checkout; call the trace `name`."""
    text = TRACE_NAME.sub(f'"traceName": "{name}"', HOST_NAME.sub("", text))
    return ABOVE_PACKAGES.sub("", text.replace(f"{checkout}/", ""))


def replace_machine(text: str, run: str) -> str:
    """Name another host and other cards in files of a run, call it `run`, and drop the commit of the checkout."""
    for pattern, written in ((HOST, '"host": "gpu-node"'), (RUN, f'"run": "{run}"'), (COMMIT, "")):
        text = pattern.sub(written, text)
    return UUID.sub(lambda card: f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, card[0])}", text)
