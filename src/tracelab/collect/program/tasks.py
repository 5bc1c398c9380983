"""Collectors that srun or torchrun started, one for each task of a job; they share a run folder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelab.collect.process import rendezvous
from tracelab.collect.process.launch import Interrupted
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.recording.process_record import PROCESSES

Outcomes = dict[int, dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """The task of this collector; a job of one task is a collector that no launcher started."""

    job: Job = field(default_factory=Job)

    @property
    def is_first(self) -> bool:
        """Whether this collector writes run.json."""
        return self.job.rank == 0

    @property
    def ranks(self) -> tuple[int, ...]:
        """The task's own number, for the rendezvous of tasks."""
        return (self.job.rank,)

    @property
    def world_size(self) -> int:
        """Number of tasks."""
        return self.job.world_size

    def processes(self, folder: Path) -> Path:
        """Return the folder of the processes that this task's program starts."""
        return folder.absolute() / (PROCESSES if self.is_first else f"{PROCESSES}.{self.job.rank}")


def meet(task: Task, folder: Path, description: dict[str, Any]) -> dict[str, Any]:
    """Write run.json as the first task, or wait for it as another one, and return its content."""
    if task.is_first:
        launch = {"token": task.job.token} if task.job.token else None
        return rendezvous.gather_ranks(folder, task, description | {"launch": launch})
    return rendezvous.join_rank_zero(folder, task)


def send_outcomes(task: int, folder: Path, outcomes: Outcomes, facts: dict[str, Any]) -> None:
    """Write what a task's program recorded for the first task."""
    rendezvous.write_outcome(folder, task, {"ranks": outcomes, "facts": facts})


def gather_outcomes(
    task: Task, folder: Path, outcomes: Outcomes, facts: dict[str, Any], signals: Sequence[Interrupted]
) -> tuple[Outcomes, dict[str, Any]]:
    """Return outcomes and facts of all tasks, as the first one; a task that sends none has failed."""
    outcomes, facts = dict(outcomes), dict(facts)
    for number, sent in rendezvous.collect_outcomes(folder, task, signals).items():
        outcomes |= {int(rank): each for rank, each in sent.get("ranks", {number: sent}).items()}
        facts = join_facts(facts, sent.get("facts", {}))
    return dict(sorted(outcomes.items())), facts


def join_facts(facts: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Join what is known of the ranks of two tasks; without those of one, return those of the other."""
    if not facts or not others:
        return facts or others
    expects = {name: sorted({*facts["expects"][name], *others["expects"][name]}) for name in ("ranks", "files")}
    sizes = [each for each in (facts["world_size"], others["world_size"]) if each is not None]
    return {"gpus": facts["gpus"] + others["gpus"], "world_size": max(sizes, default=None), "expects": expects}
