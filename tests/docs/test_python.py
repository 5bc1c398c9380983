"""The Python examples of README.md and the guides run against a store."""

import re
from pathlib import Path

import pytest

from tracelab.ingest import pipeline

ROOT = Path(__file__).parents[2]
TESTED_ELSEWHERE = {ROOT / "docs" / "guides" / "engines.md"}
"""By test_engines.py, whose stores have what its examples name."""
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - TESTED_ELSEWHERE)]
EXAMPLES = {
    f"{page.relative_to(ROOT)}-{number}": block
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
}
PARTS_OF_PROGRAMS = ("torch.profiler", "tracelab.record(", "tracelab.collect.callbacks")
"""What shows that an example is a part of a training program: it is compiled alone."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the store `lab` of two runs, as the guide for CI names them."""
    folder = tmp_path_factory.mktemp("python")
    for run, source in (("main", "generated-4rank-ddp"), ("branch", "generated-4rank-nobroadcast")):
        report = pipeline.ingest([ROOT / "data" / "generated" / source], folder / "lab", run=run)
        assert report.exit_code == 0
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_python_example_runs(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = compile(EXAMPLES[name], name, "exec")
    if not any(part in EXAMPLES[name] for part in PARTS_OF_PROGRAMS):
        monkeypatch.chdir(folder)
        try:
            exec(code, {"__name__": "__main__"})  # noqa: S102  the project's own page
        except SystemExit as end:
            assert end.code == 0
        assert capfd.readouterr().err == ""
