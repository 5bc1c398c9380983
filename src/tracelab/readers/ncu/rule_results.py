"""Map messages of ncu's rules to rows of `diagnostics`."""

from dataclasses import dataclass, field

from tracelab.readers.diagnostics import Diagnostic, DiagnosticCounts
from tracelab.readers.ncu.diagnostics import RULE_CODE
from tracelab.readers.ncu.metric_rows import Launch

_MAX_MESSAGES = 10_000  # a report of a whole training run repeats the same advice some hundred thousand times
_KERNEL_LENGTH = 120
_WARNINGS = ("OPT", "WRN", "WARNING", "ERR", "OPTIMIZATION")


@dataclass(frozen=True)
class Advice:
    """One message of one rule."""

    launch: Launch
    text: str
    kind: str
    rule: str = ""
    section: str = ""
    speedup: str = ""
    speedup_kind: str = ""


@dataclass
class AdviceList:
    """Advice of a report, up to a limit; the rest is counted."""

    diagnostics: DiagnosticCounts
    messages: list[Diagnostic] = field(default_factory=list)

    def add(self, advice: Advice) -> None:
        """Add one message."""
        if len(self.messages) >= _MAX_MESSAGES:
            self.diagnostics.note("advice_beyond_limit")
            return
        severity = "warning" if advice.kind.upper() in _WARNINGS else "info"
        self.messages.append(Diagnostic(severity, RULE_CODE, 1, _format_advice(advice)))


def _format_advice(advice: Advice) -> str:
    launch = advice.launch
    number = "a launch" if launch.number is None else f"launch {launch.number}"
    kernel = launch.kernel or "?"
    short = kernel if len(kernel) <= _KERNEL_LENGTH else kernel[: _KERNEL_LENGTH - 1] + "…"
    rule = " ".join(word for word in (advice.rule, f"({advice.section})" if advice.section else "") if word)
    text = " ".join(advice.text.split())
    kind = f" ({advice.speedup_kind})" if advice.speedup_kind else ""
    speedup = f" Estimated speedup: {advice.speedup.removesuffix('%')} %{kind}." if advice.speedup else ""
    return f"{number}, {short}: {advice.kind}{' ' + rule if rule else ''}: {text}{speedup}"
