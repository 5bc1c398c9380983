"""A program that tells the fakes of nsys and ncu what it does: `python gpu_program.py start 'kernel x' stop`."""

import os
import sys
import time
from pathlib import Path

lines, code = [], 0
for word in sys.argv[1:]:
    if word.startswith("sleep="):
        time.sleep(float(word.removeprefix("sleep=")))
    elif word.startswith("exit="):
        code = int(word.removeprefix("exit="))
    else:
        lines.append(f"{word}\n")
if "FAKE_CUDA" in os.environ:
    Path(os.environ["FAKE_CUDA"]).write_text("".join(lines))
sys.exit(code)
