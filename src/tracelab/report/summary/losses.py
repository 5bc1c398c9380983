"""What the GPUs of a run lose in all, how much of it can be recovered, and how much of that the findings explain."""

from collections.abc import Mapping
from dataclasses import dataclass

from tracelab.query.report_rules import COMMUNICATION_TOPICS, COMPUTING_TOPICS, COPY_TOPICS, LEAST_SHARE
from tracelab.report.summary.figures import Rows, exposed_waiting_ns, format_share
from tracelab.report.summary.lead import Ceiling, FoundLeads, list_findings

_LOST = {"idle": "idle", "exposed_comm": "exposed communication", "exposed_memory": "exposed copies"}
"""Columns of gpu_breakdown, without their unit, in which GPUs do not compute."""
_IDLE_TOPICS = frozenset({"data", "host", "launches", "dependency"})
_WAITING_TOPICS = frozenset({"waiting"})
_SAME_SHARE = 0.0005
"""Shares that differ by less look the same."""


@dataclass(frozen=True)
class Losses:
    """Shares of the windows of the GPUs of a run: computing, and what `_LOST` names; of that what is recoverable.

    Without GPU activity there are none.
    """

    shares: Mapping[str, float]
    recoverable: Mapping[str, float]
    waiting: float | None
    """The exposed waiting for late ranks, where it is known."""

    @property
    def hidden(self) -> float:
        """Return the exposed time in whose place the GPUs would wait for the CPU side."""
        return sum(self.shares.get(name, 0.0) - share for name, share in self.recoverable.items())

    @property
    def busy(self) -> float | None:
        """Return the share of the windows in which a GPU works; None without GPU activity."""
        return sum(share for name, share in self.shares.items() if name != "idle") if self.shares else None

    @property
    def ceilings(self) -> list[Ceiling]:
        """Return the idle time and the recoverable exposed time: more cannot be lost."""
        if not self.shares:
            return []
        comm, memory = (self.recoverable[name] for name in ("exposed_comm", "exposed_memory"))
        exposed = self.shares["exposed_comm"]
        kinds = {
            name: f"{'' if self.shares[name] - share < _SAME_SHARE else 'recoverable '}exposed"
            for name, share in self.recoverable.items()
        }
        of_comm, of_memory = kinds["exposed_comm"], kinds["exposed_memory"]
        waiting = [] if self.waiting is None else [self.waiting * comm / exposed if exposed else 0.0]
        return [
            Ceiling(_IDLE_TOPICS, self.shares["idle"], "idle time"),
            *(Ceiling(_WAITING_TOPICS, each, f"{of_comm} waiting") for each in waiting),
            Ceiling(COMMUNICATION_TOPICS, comm, f"{of_comm} communication"),
            Ceiling(COPY_TOPICS, memory, f"{of_memory} copies"),
        ]


def compute_losses(answers: Mapping[str, Rows]) -> Losses:
    """Compute the losses of a run from its rows by query."""
    rows, exposure = (answers.get(name, []) for name in ("gpu_breakdown", "recoverable_exposure"))
    window_ns = sum(row["window_ns"] for row in rows)
    if not window_ns:
        return Losses({}, {}, None)
    shares = {name: sum(row[f"{name}_ns"] for row in rows) / window_ns for name in ("compute", *_LOST, "out_of_scope")}
    recoverable = {f"exposed_{name}": shares[f"exposed_{name}"] * _kept(exposure, name) for name in ("comm", "memory")}
    waiting_ns = exposed_waiting_ns(answers.get("stragglers", []))
    return Losses(shares, recoverable, None if waiting_ns is None else waiting_ns / window_ns)


def _kept(exposure: Rows, name: str) -> float:
    """Return the part of exposed time that is recoverable."""
    exposed_ns, recoverable_ns = (
        sum(row[f"{kind}_{name}_ns"] for row in exposure) for kind in ("exposed", "recoverable")
    )
    return recoverable_ns / exposed_ns if exposed_ns else 1.0


def describe_balance(losses: Losses, found: FoundLeads) -> str:
    """Return what the GPUs of a run spend their windows on, and how much of the lost time the findings explain.

    Without GPU activity only the findings that are left out are counted.
    """
    sentences = []
    if losses.shares:
        lost = sum(losses.shares[name] for name in _LOST)
        parts = ", ".join(f"{label} {format_share(losses.shares[name])}" for name, label in _LOST.items())
        if outside := losses.shares["out_of_scope"]:
            parts += f", work outside of the scope {format_share(outside)}"
        sentences.append(
            f"GPUs compute for {format_share(losses.shares['compute'])} of the measured time; the rest: {parts}."
        )
        hidden = losses.hidden if losses.hidden >= _SAME_SHARE else 0.0
        if hidden:
            sentences.append(
                f"Of the exposed communication and copies, a part of {format_share(hidden)} of the measured time "
                "cannot be recovered: the GPUs would wait for the CPU side in its place (recoverable_exposure)."
            )
        counted, noted = (
            [lead for lead in leads if not COMPUTING_TOPICS & set(lead.topics) and lead.is_counted]
            for leads in (found.leads, found.unranked)
        )
        explained = min(sum(lead.rest for lead in counted), lost - hidden)
        unknown = min(sum(lead.rest for lead in noted), lost - hidden - explained)
        if counted:
            numbers = [number for number, lead in enumerate(found.leads, 1) if lead in counted]
            leads = f"{list_findings(numbers)} explain{'s' * (len(numbers) == 1)}"
            unranked = f", {format_share(unknown)} is not ranked" if unknown else ""
            unexplained = format_share(lost - hidden - explained - unknown)
            rest = f"{'other ' if hidden else ''}{format_share(lost - hidden)} in which the GPUs do not compute"
            parts = f"{leads} {format_share(explained)}{unranked}, and {unexplained} has other causes."
            sentences.append(f"Of the {rest}, {parts}")
    if found.below:
        cost, gain, each = ("costs", "gains", "") if found.below == 1 else ("cost", "gain", " each")
        findings = f"{found.below:,} finding{'s' * (found.below > 1)}"
        sentences.append(f"{findings} {cost}, or {gain} by a replay, less than {100 * LEAST_SHARE:.0f} %{each}.")
    return " ".join(sentences)
