"""Write why two sides were not compared, in the formats of a comparison."""

from collections.abc import Sequence
from xml.etree import ElementTree

from tracelab.compare.comparability import NotComparableError
from tracelab.compare.writers import JSON_FORMAT, KERNEL_LISTS, LISTS, escape_sentence, list_facts
from tracelab.errors import TracelabError
from tracelab.exact_json import json_text
from tracelab.foreign_text import escape_controls

REFUSED = "refused"


def write_refusal(error: TracelabError, fmt: str, *, base: Sequence[str], candidate: Sequence[str]) -> str:
    """Return the refusal as text, Markdown, JUnit's XML with an error, or JSON with the verdict `refused`.

    `base` and `candidate` are the names and patterns of the request.
    """
    match fmt:
        case "markdown":
            return f"**Refused:** {escape_sentence(str(error))}.\n"
        case "junit":
            return _junit(str(error))
        case "json":
            content = {
                "tracelab": JSON_FORMAT,
                "verdict": REFUSED,
                "exit_code": error.exit_code,
                "summary": f"{error}.",
                "reason": str(error),
                "request": {"base": list(base), "candidate": list(candidate)},
                **{key: [] for key in LISTS},
                "fullest_ranks": [None, None],
                "comparability": list_facts(error.facts) if isinstance(error, NotComparableError) else [],
                "kernels": {key: [] for key in KERNEL_LISTS},
            }
            return json_text(content) + "\n"
    return f"Refused: {escape_controls(str(error))}.\n"


def _junit(reason: str) -> str:
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "tracelab compare"} | counts)
    case = ElementTree.SubElement(
        suite, "testcase", classname="tracelab.compare.comparability", name="comparable", time="0"
    )
    message = escape_controls(reason)
    ElementTree.SubElement(case, "error", message=message, type=REFUSED).text = message
    ElementTree.indent(suites)
    text: str = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
