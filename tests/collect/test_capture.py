"""Which steps are recorded, whatever records them."""

import contextlib
import time
from collections.abc import Iterator

import pytest

from tracelab.collect.process.cancellation import CanceledError, Cancellation
from tracelab.collect.profiling.capture import ProfilerError, StepCapture
from tracelab.collect.profiling.schedule import Schedule


def recorded(windows: Schedule, steps: int) -> list[int]:
    return [step for step in range(steps) if windows.cycle(step) is not None]


@pytest.mark.parametrize(
    ("windows", "steps"),
    [
        (Schedule("step", first=2, active=3, wait=0, cycles=1), [2, 3, 4]),
        (Schedule("step", first=5, active=2, wait=3, cycles=2), [5, 6, 10, 11]),
        (Schedule("step", first=0, active=1, wait=0, cycles=3), [0, 1, 2]),
    ],
)
def test_so_many_steps_are_recorded_as_often_as_requested(windows: Schedule, steps: list[int]) -> None:
    assert recorded(windows, 20) == steps


class Diary:
    """A recorder that writes down what it is told."""

    def __init__(self, *, broken: str = "") -> None:
        self.told: list[str] = []
        self.broken = broken

    def _note(self, what: str) -> None:
        if what == self.broken:
            raise RuntimeError("CUPTI is busy")
        self.told.append(what)

    def prepare(self) -> None:
        self._note("prepare")

    def start(self) -> None:
        self._note("start")

    def stop(self, *, resumes: bool = False) -> None:
        self._note("stop" + " resumes" * resumes)

    def save(self, first_step: int | None) -> None:
        self._note("save" if first_step is None else f"save {first_step}")

    @contextlib.contextmanager
    def mark(self, name: str) -> Iterator[None]:
        self._note(f"<{name}")
        yield
        self._note(f"{name}>")


@pytest.mark.parametrize(
    ("steps", "requested", "note"),
    [
        (11, 3, None),
        (10, 3, "only 2 of 3 steps of recording 2 of 2 were recorded before the run ended"),
        (8, 3, "only 1 of 2 recordings began before the run ended"),
        (4, 3, "only 1 of 3 steps of recording 1 of 2 were recorded before the run ended"),
        (3, 3, None),  # no recording began, which is an error of its own
    ],
)
def test_what_a_run_did_not_record_is_in_a_note(steps: int, requested: int, note: str | None) -> None:
    assert Schedule("step", first=3, active=3, wait=2, cycles=2).describe_unfilled(steps, requested) == note


def test_more_steps_than_the_run_has_are_in_a_note() -> None:
    """The schedule of ten steps holds at most ten; --active 40 requested more."""
    windows = Schedule("step", first=2, active=10, wait=0, cycles=1)
    assert windows.describe_unfilled(12, 40) == "only 10 of 40 steps were recorded before the run ended"
    assert windows.describe_unfilled(12, 10) is None
    assert Schedule("all", first=2, active=10, wait=0, cycles=1).describe_unfilled(5, 10) is None


def kept(windows: Schedule, steps: int) -> list[str]:
    diary = Diary()
    capture = StepCapture(windows, diary, Cancellation())
    with capture.run():
        for step in range(steps):
            with capture.step(step):
                with capture.phase("forward"):
                    pass
                with capture.phase("backward"):
                    pass
            capture.between_steps()
    return [told for told in diary.told if not told.startswith("<") and not told.endswith(">")]


def test_a_window_of_steps_is_prepared_a_step_ahead_and_saved_once() -> None:
    assert kept(Schedule("step", first=2, active=2, wait=0, cycles=1), 6) == ["prepare", "start", "stop", "save"]


def test_each_cycle_is_a_file_named_by_its_first_step() -> None:
    told = kept(Schedule("step", first=1, active=1, wait=1, cycles=2), 4)
    assert told == ["prepare", "start", "stop resumes", "save 1", "prepare", "start", "stop", "save 3"]


def test_a_window_stops_for_good_where_no_other_is_prepared_after_it() -> None:
    told = kept(Schedule("step", first=2, active=1, wait=2, cycles=2), 7)
    assert told == ["prepare", "start", "stop", "save 2", "prepare", "start", "stop", "save 5"]


def test_a_window_of_backward_passes_opens_in_each_recorded_step() -> None:
    told = kept(Schedule("backward", first=1, active=2, wait=0, cycles=1), 4)
    assert told == ["prepare", "start", "stop resumes", "save 1", "prepare", "start", "stop", "save 2"]


def test_a_window_of_the_whole_run_is_one() -> None:
    assert kept(Schedule("all", first=2, active=2, wait=0, cycles=1), 3) == ["start", "stop", "save"]


def test_the_range_of_a_step_stands_inside_the_window_of_its_forward_pass() -> None:
    diary = Diary()
    capture = StepCapture(Schedule("forward", first=0, active=1, wait=0, cycles=1), diary, Cancellation())
    with capture.step(0), capture.phase("forward"):
        pass
    assert diary.told[:5] == ["start", "<ProfilerStep#0", "<forward", "forward>", "ProfilerStep#0>"]


def test_what_was_recorded_until_a_failure_is_saved() -> None:
    diary = Diary()
    capture = StepCapture(Schedule("step", first=0, active=5, wait=0, cycles=1), diary, Cancellation())
    with pytest.raises(ValueError, match="boom"), capture.run(), capture.step(0):
        raise ValueError("boom")
    assert diary.told[-2:] == ["stop", "save"]


def test_a_failure_of_the_profiler_is_distinguished_from_one_of_the_training() -> None:
    capture = StepCapture(Schedule("all", first=0, active=1, wait=0, cycles=1), Diary(broken="start"), Cancellation())
    with pytest.raises(ProfilerError, match="RuntimeError: CUPTI is busy"), capture.run():
        pass


def test_what_could_not_be_saved_of_a_run_that_broke_off_is_reported() -> None:
    capture = StepCapture(Schedule("step", first=0, active=5, wait=0, cycles=1), Diary(broken="save"), Cancellation())
    with pytest.raises(ValueError, match="boom"), capture.run(), capture.step(0):
        raise ValueError("boom")
    assert str(capture.unsaved) == "RuntimeError: CUPTI is busy"


def test_a_request_to_stop_waits_until_a_trace_is_written() -> None:
    stop = Cancellation()

    class Told(Diary):
        def save(self, first_step: int | None) -> None:
            stop.request()
            super().save(first_step)

    diary = Told()
    capture = StepCapture(Schedule("step", first=0, active=1, wait=0, cycles=1), diary, stop)
    with pytest.raises(CanceledError), capture.run():
        with capture.step(0):
            pass
        capture.between_steps()
    assert diary.told[-2:] == ["stop", "save"]


def test_a_library_that_takes_the_exception_for_its_own_holds_a_run_up_by_one_step() -> None:
    stop = Cancellation()
    capture = StepCapture(Schedule("step", first=9, active=1, wait=0, cycles=1), Diary(), stop)
    with pytest.raises(CanceledError), capture.run():
        with capture.step(0), contextlib.suppress(BaseException):
            stop.request()
        capture.between_steps()


def test_the_time_that_a_profiler_takes_between_steps_is_known() -> None:
    class Slow(Diary):
        def save(self, first_step: int | None) -> None:
            time.sleep(0.05)

    capture = StepCapture(Schedule("step", first=0, active=1, wait=0, cycles=1), Slow(), Cancellation())
    with capture.run():
        with capture.step(0):
            time.sleep(0.2)
        capture.between_steps()
    assert 50_000_000 <= capture.overhead_ns < 200_000_000
