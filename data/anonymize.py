"""Remove from a recorded trace whatever identifies the machine it was recorded on."""

import re
from pathlib import Path

HOST_NAME = re.compile(r'\n *"host_name": "[^"]*",')
TRACE_NAME = re.compile(r'"traceName": "[^"]*"')
ABOVE_PACKAGES = re.compile(r'(?<=")/[^"]*/(?:site-packages|dist-packages|lib/python3\.\d+)/')


def scrub(text: str, name: str, checkout: Path) -> str:
    """Drop the host's name and the folders above packages and above this checkout; call the trace `name`."""
    text = TRACE_NAME.sub(f'"traceName": "{name}"', HOST_NAME.sub("", text))
    return ABOVE_PACKAGES.sub("", text.replace(f"{checkout}/", ""))
