"""Stands in for `tracelab collect train`: does what its plan (a file beside the sweep) says for the run's name."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from tracelab.collect.run_folder import RUN_JSON, claim_run_folder, read_run_json, write_json

arguments = dict(zip(sys.argv[2::1], sys.argv[3::1], strict=False))
folder = Path(arguments["--out"]) / arguments["--run"]
plan = json.loads(Path(os.environ["FAKE_TRAIN_PLAN"]).read_text())
deed = plan.get(folder.name, "ok")
with Path(os.environ["FAKE_TRAIN_PLAN"]).with_suffix(".log").open("a") as log:
    log.write(f"{folder.name} {deed}\n")


if deed == "lost":
    sys.stderr.write(f"tracelab: {folder}: another process is writing a run there; wait for it\n")
    sys.exit(2)


def stopped(number: int, frame: object) -> None:
    write_json(folder / RUN_JSON, before | {"status": "failed", "error": "interrupted"})
    sys.exit(128 + number)


with claim_run_folder(folder, force="--force" in sys.argv):
    before = {"tracelab": "run/1", "run": folder.name, "status": "not_run"}
    write_json(folder / RUN_JSON, before)
    (folder / "steps.rank0.jsonl").write_text('{"tracelab": "steps/1", "run": "x", "rank": 0}\n')
    signal.signal(signal.SIGTERM, stopped)
    match deed:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "crash":
            sys.stderr.write("Traceback …\nRuntimeError: no such kernel\n")
            sys.exit(3)
        case "hang":
            time.sleep(60)
        case _:
            write_json(folder / RUN_JSON, (read_run_json(folder) or {}) | {"status": deed, "error": None})
