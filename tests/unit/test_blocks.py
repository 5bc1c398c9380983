"""Blocks of a query's SQL: an idle one is left out, and the answer is the same."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import cases
from tests.memory import MemoryStore
from tracelab.errors import UsageError
from tracelab.query import execute, library, spec
from tracelab.query.spec import list_blocks, prune_blocks

SQL = "select 1\n-- /// if from = shapes, both\nunion all\nselect 2\n-- /// end\norder by all\n"


def test_an_idle_block_is_left_out_and_the_other_lines_keep_their_numbers() -> None:
    assert prune_blocks(SQL, {"from": "both"}) == SQL
    assert prune_blocks(SQL, {}) == SQL
    assert prune_blocks(SQL, {"from": "counters"}).splitlines() == ["select 1", "", "", "", "", "order by all"]


def test_a_block_of_a_value_that_is_no_choice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(
        '-- What.\n-- /// query\n-- title = "T"\n-- needs = ["ops"]\n-- subject = "host"\n-- [params]\n'
        '-- from = { default = "a", choices = ["a", "both"], about = "x" }\n-- [columns]\n-- a = "A."\n-- ///\n'
        "select $from as a\n-- /// if from = shapes, both\n-- /// end\n"
    )
    with pytest.raises(UsageError, match="a block for from = shapes, both"):
        spec.parse(path)


def test_a_parameter_that_is_a_keyword_of_python_takes_an_underscore() -> None:
    assert execute.bind(library.find("mfu"), {"from_": "shapes"})["from"] == "shapes"


OF_SESSIONS = {spec.KEPT, spec.ORDERED}
WITH_BLOCKS = [
    query for query in library.library().values() if {block.name for block in list_blocks(query.sql)} - OF_SESSIONS
]


@pytest.mark.parametrize("query", WITH_BLOCKS, ids=[query.name for query in WITH_BLOCKS])
def test_an_idle_block_yields_no_row(query: spec.Query, memory: MemoryStore) -> None:
    """Of the rows of all golden cases that have the values by which blocks are left out."""
    names = {block.name for block in list_blocks(query.sql)}
    listed = [case for case in cases.CASES if case.parent == cases.FOLDER / query.name]
    memory.filled(cases.tables(next(case for case in listed if names & cases.params(case).keys())))
    choices = [
        (param.name, choice)
        for param in query.params
        if param.name in names
        for choice in param.choices or (False, True)
    ]
    without_blocks = replace(query, sql=re.sub(r"^ *-- /// (if .*|end)$", "", query.sql, flags=re.MULTILINE))
    for name, choice in choices:
        pruned = memory.run_query(query, {name: choice})
        whole = memory.run_query(without_blocks, {name: choice})
        assert pruned.to_pylist() == whole.to_pylist()
