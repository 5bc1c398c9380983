"""Imports point one way, from the command line down to the schema, and the packages form no circle."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "tracelab"

LAYERS = (
    {"__main__"},
    {"entry"},
    {"cli"},
    {"study", "client", "__init__"},
    {"report"},
    {"export", "collect"},
    {"ingest"},
    {"compare", "doctor", "plot"},
    {"readers", "sql"},
    {"query", "store"},
    {"output", "paths", "change_points"},
    {"schema", "table_types", "computations", "table_lookup", "run_names"},
    {"file_urls"},
    {"allocator", "errors", "enumerations", "exact_json", "resources", "temp_folders", "interrupts"},
    {"foreign_text"},
)
"""Packages and top-level modules of tracelab, from the top down; a package may import from its own or a lower layer."""
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}


def package_of(path: Path) -> str:
    """Return the package, or the top-level module, of a source file."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    """Return the packages of tracelab that a file imports, lazily or at once."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tracelab":
            first = node.module.split(".")[1:2]
            found |= set(first) if first else {alias.name for alias in node.names if alias.name in LAYER}
    return found


def test_every_package_has_a_layer() -> None:
    assert {package_of(path) for path in SOURCE.rglob("*.py")} == set(LAYER)


def test_no_import_points_upwards() -> None:
    upwards = [
        f"{path.relative_to(SOURCE)} imports {other}"
        for path in sorted(SOURCE.rglob("*.py"))
        for other in sorted(imported_packages(path))
        if LAYER[other] < LAYER[package_of(path)]
    ]
    assert not upwards, upwards


def test_packages_of_one_layer_import_each_other_in_one_direction_only() -> None:
    edges = {(package_of(path), other) for path in SOURCE.rglob("*.py") for other in imported_packages(path)}
    assert not [(one, other) for one, other in edges if one != other and (other, one) in edges]
