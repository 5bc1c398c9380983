"""Files that no Python code reads agree with the project: workflows, forms, hooks, Dockerfiles, versions."""

import fnmatch
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import tracelab
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
HOOKS = ROOT / ".pre-commit-config.yaml"
PAGES = [*ROOT.glob("*.md"), ROOT / ".github" / "pull_request_template.md"]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def jobs() -> list[Any]:
    return [
        pytest.param(job, id=f"{path.stem}-{name}") for path in WORKFLOWS for name, job in load(path)["jobs"].items()
    ]


def steps() -> list[dict[str, Any]]:
    return [step for job in jobs() for step in job.values[0]["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_unless_a_job_requests_more(path: Path) -> None:
    assert load(path)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("job", jobs())
def test_a_job_ends_by_itself(job: dict[str, Any]) -> None:
    assert 0 < job["timeout-minutes"] <= 180


def test_an_action_has_a_version() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", action)] == []


def environment_of(target: str, lines: str) -> set[str]:
    """What a target prints of its environment, with lines added to the Makefile, where the shell sets PYTHONPATH."""
    done = subprocess.run(
        ["make", "--silent", "-f", "Makefile", "-f", "-", target],
        input=lines,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "/elsewhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines())


def test_make_runs_the_modules_of_this_checkout_wherever_the_shell_points() -> None:
    lines = environment_of("environment", "environment:\n\t@env\n")
    assert f"PATH={os.environ['PATH']}" in lines
    assert [line for line in lines if line.startswith("PYTHONPATH=")] == []


def test_the_python_of_a_gpu_node_keeps_the_path_of_its_modules() -> None:
    assert "PYTHONPATH=/elsewhere" in environment_of("gpu-check", "GPU_PYTHON := env;:\n")


def test_workflows_call_targets_that_the_makefile_has() -> None:
    commands = "\n".join(step.get("run", "") for step in steps())
    called = set(re.findall(r"\bmake ([a-z-]+)", commands))
    assert called
    assert called <= MAKE_TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_targets_that_the_makefile_has(page: Path) -> None:
    assert set(re.findall(r"(?:^ +|`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)) <= MAKE_TARGETS


def test_files_that_workflows_name_exist() -> None:
    commands = "\n".join(step.get("run", "") for step in steps())
    named = re.findall(r"(?:data|requirements|docker|docs)/[\w./-]+", commands)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_ci_tests_every_python_that_the_package_claims() -> None:
    claimed = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"] == claimed


def test_the_nightly_run_fuzzes_every_parser() -> None:
    matrix = load(ROOT / ".github" / "workflows" / "nightly.yml")["jobs"]["fuzz"]["strategy"]["matrix"]
    assert matrix["target"] == list(TARGETS), (
        "nightly.yml must list the targets of tests/fuzz/targets.py, in their order"
    )


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_has_what_the_forge_demands(path: Path) -> None:
    form = load(path)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert form["name"]
    assert form["description"]
    assert len(names) == len(set(names))
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in fields)


def test_hooks_of_our_own_run_modules_of_the_lock() -> None:
    locked = {re.split("==", line)[0].lower() for line in (ROOT / "requirements" / "lock.txt").read_text().splitlines()}
    entries = [hook["entry"] for repo in load(HOOKS)["repos"] if repo["repo"] == "local" for hook in repo["hooks"]]
    modules = re.findall(r"\.venv/bin/python -m (\w+)", "\n".join(entries))
    assert len(modules) == len(entries)
    assert set(modules) <= locked


def test_hooks_skip_what_is_recorded_or_generated() -> None:
    skipped = re.compile(load(HOOKS)["exclude"])
    recorded = ("data/cpu/x.json", "docs/reference/cli.md", "src/tracelab/report/assets/echarts.js")
    assert all(map(skipped.match, recorded))
    assert not skipped.match("src/tracelab/schema.py")


def instructions(path: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile as pairs: name, arguments."""
    text = re.sub(r"^#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (name, rest) for name, _, rest in (line.strip().partition(" ") for line in text.splitlines() if line.strip())
    ]


def copied(path: Path) -> list[str]:
    """The paths of the checkout that a Dockerfile copies."""
    arguments = [rest.split() for name, rest in instructions(path) if name == "COPY" and not rest.startswith("--from=")]
    return [source for each in arguments for source in each[:-1]]


def is_ignored(name: str) -> bool:
    """Whether .dockerignore keeps a path out of the build; its last matching line decides."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    ignored = False
    for line in lines:
        pattern = line.removeprefix("!")
        if not line.startswith("#") and (fnmatch.fnmatch(name, pattern) or name.startswith(f"{pattern}/")):
            ignored = not line.startswith("!")
    return ignored


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_a_dockerfile_copies_what_exists_and_is_not_ignored(path: Path) -> None:
    assert copied(path)
    assert [name for name in copied(path) if not (ROOT / name).exists() or is_ignored(name)] == []


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_a_dockerfile_copies_all_that_the_wheel_is_built_from(path: Path) -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {name.split("/")[0] for name in wheel["only-include"]} | {"pyproject.toml", "LICENSE", PROJECT["readme"]}
    assert needed <= set(copied(path))


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_a_container_runs_without_root(path: Path) -> None:
    assert [rest for name, rest in instructions(path) if name == "USER"] == ["tracelab"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_a_base_image_has_a_version(path: Path) -> None:
    defaults = dict(rest.split("=", 1) for name, rest in instructions(path) if name == "ARG")
    images = [rest.split()[0] for name, rest in instructions(path) if name == "FROM"]
    images = [re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], image) for image in images]
    assert [image for image in images if not re.search(r":\d", image)] == []


def test_the_recipe_for_apptainer_builds_the_image_of_the_dockerfile() -> None:
    recipe = (ROOT / "docker" / "node.def").read_text("utf-8")
    dockerfile = ROOT / "docker" / "node.Dockerfile"
    sections = dict(re.findall(r"^%(\w+)\n((?: .*\n|\n)*)", recipe, re.MULTILINE))
    files = [line.split() for line in sections["files"].splitlines() if line.strip()]
    assert sorted(source for source, _ in files) == sorted(copied(dockerfile))
    assert [target for source, target in files] == [f"/opt/tracelab/{source}" for source, _ in files]
    (base,) = (rest for name, rest in instructions(dockerfile) if name == "ARG")
    assert f"From: {base.removeprefix('BASE=')}\n" in recipe
    (installs,) = (rest for name, rest in instructions(dockerfile) if name == "RUN" and "pip install" in rest)
    commands = re.findall(r"pip install[^&\n]*", installs)
    assert [each.strip() for each in commands] == re.findall(r"pip install.*", sections["post"])


def test_extras_that_pages_and_dockerfiles_install_exist() -> None:
    files = [*DOCKERFILES, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "Makefile"]
    text = "\n".join(path.read_text("utf-8") for path in files)
    extras = {name for each in re.findall(r"(?:'\.|tracelab)\[([a-z,]+)\]", text) for name in each.split(",")}
    assert extras
    assert extras <= set(PROJECT["optional-dependencies"])


def test_the_version_is_the_same_in_the_package_and_at_the_top_of_the_changelog() -> None:
    (latest, *_) = re.findall(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert PROJECT["version"] == tracelab.__version__ == latest


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150
