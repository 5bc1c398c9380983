"""On what ships with tracelab every row answers, or names what is missing."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.memory import read_into_memory
from tests.stores import study_examples
from tracelab.errors import NoDataError
from tracelab.study import figure, session, spec
from tracelab.study.evaluate import CAPTURE, FIGURES, evaluate_row, missing_run_hint, row_states


@pytest.fixture(scope="module")
def con(shared_stores: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a session over the examples of all rows, read into memory: each query opens some 270 files otherwise."""
    with session.open_session(study_examples(shared_stores), spec.rows().values()) as opened:
        read_into_memory(opened)
        yield opened


@pytest.mark.parametrize("row", spec.rows().values(), ids=list(spec.rows()))
def test_a_row_answers_as_the_list_states(con: duckdb.DuckDBPyConnection, row: spec.Row) -> None:
    (state,) = row_states(con, [row])
    if state.state == CAPTURE:
        with pytest.raises(NoDataError) as caught:
            evaluate_row(con, row)
        assert (str(caught.value), row.capture in str(caught.value)) == (missing_run_hint(row), True)
        return
    answer = evaluate_row(con, row)
    cells = answer.cells.to_pylist()
    assert [cell for cell in cells if cell["quantity"] is None] == []
    assert any(cell[name] is not None for cell in cells for name in FIGURES)
    assert (answer.verdict[-1], "NULL" in answer.verdict, "not enough" in answer.verdict) == (".", False, False)


def test_runs_at_hand_answer_all_rows_but_those_that_need_a_gpu(con: duckdb.DuckDBPyConnection) -> None:
    lacking = {state.row.id for state in row_states(con, list(spec.rows().values())) if not state.runs}
    assert lacking <= {"S0-11"}


@pytest.mark.parametrize("row", ["S0-07", "S1-08", "S2-03", "S2-06", "S3-07", "S3-13", "S4-02"])
def test_a_figure_is_drawn_of_the_cells(con: duckdb.DuckDBPyConnection, row: str) -> None:
    drawn = figure.draw_row(evaluate_row(con, spec.find(row)))
    assert any(axes.lines or axes.collections for axes in drawn.axes)
