"""Samples of the machine beside a run: a line each, whole at every moment, and no fault of theirs ends the run."""

import itertools
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.collect.test_machine import NOWHERE, fake_nvml, smi
from tracelab.collect.machine import Sampler
from tracelab.collect.machine import sampler as sampler_module
from tracelab.collect.machine.host import read_host

OF_NO_CARD = ("power_w", "sm_clock_hz", "memory_clock_hz", "temperature_c", "throttle_reasons")


@pytest.fixture(autouse=True)
def nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())


@pytest.fixture
def a_quarter_busy(monkeypatch):
    """A host whose cores work one second in four; its own clock may not tick between two samples."""
    looks = itertools.count()

    def look(pid):
        at = next(looks)
        return replace(read_host(pid), busy_s=1.0 * at, idle_s=3.0 * at)

    monkeypatch.setattr(sampler_module, "read_host", look)


def wait_for(sampler, samples):
    until = time.monotonic() + 60
    while sampler.samples < samples and time.monotonic() < until:
        time.sleep(0.01)


def rows(path):
    header, *samples = (json.loads(line) for line in path.read_text().splitlines())
    return header, samples


def test_every_sample_has_a_row_a_card_and_one_of_the_host(tmp_path, a_quarter_busy):
    path = tmp_path / "host_samples.0.jsonl"
    begun = time.time_ns()
    with Sampler(path, 0.05, environment=NOWHERE) as sampler:
        wait_for(sampler, 3)
    header, samples = rows(path)
    assert (header["tracelab"], header["run"], header["cards_by"]) == ("host_samples/1", tmp_path.name, "nvml")
    assert len(samples) == 3 * sampler.samples
    assert [row["device"] for row in samples[:3]] == [0, 1, None]
    assert {row["time_ns"] for row in samples[:3]} == {samples[0]["time_ns"]}
    assert begun < samples[0]["time_ns"] < samples[-1]["time_ns"] < time.time_ns()
    assert samples[1] == {
        "host": header["host"],
        "device": 1,
        "time_ns": samples[0]["time_ns"],
        "used_bytes": 11_534_337,
        "total_bytes": 150_754_820_096,
        "util_ratio": 0.37,
        "power_w": 119.42,
        "sm_clock_hz": 1_980_000_000,
        "memory_clock_hz": 3_201_000_000,
        "temperature_c": 41.0,
        "throttle_reasons": "sw_power_cap, sw_thermal_slowdown",
        "rss_bytes": None,
        "uuid": "GPU-aaaaaaaa-0000-0000-0000-000000000001",
        "energy_j": None,
        "cores": None,
        "own_cpu_ns": None,
        "own_wait_ns": None,
    }
    assert [samples[2][name] for name in OF_NO_CARD] == [None] * 5
    assert samples[2]["rss_bytes"] > 1 << 20
    assert samples[2]["cores"] == os.cpu_count()
    assert [row["util_ratio"] for row in samples if row["device"] is None] == [0.25] * sampler.samples
    assert (sampler.error, sampler.used_peaks) == (None, {0: 11_534_336, 1: 11_534_337})


def test_how_a_card_was_since_a_moment_is_known(tmp_path):
    with Sampler(tmp_path / "host_samples.0.jsonl", 0.05, environment=NOWHERE) as sampler:
        wait_for(sampler, 2)
        seen = sampler.recent(0.0, device=1)
        assert {(card.device, card.sm_clock_hz) for card in seen} == {(1, 1_980_000_000)}
        assert sampler.recent(time.monotonic() + 3600) == []


def test_a_run_shorter_than_the_interval_has_two_samples(tmp_path):
    with Sampler(tmp_path / "host_samples.0.jsonl", 3600, environment=NOWHERE) as sampler:
        wait_for(sampler, 1)
    assert sampler.samples == 2


def test_nvidia_smi_is_not_started_more_often_than_once_a_second(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    path = tmp_path / "host_samples.0.jsonl"
    begun = time.monotonic()
    with Sampler(path, 0.01, environment=smi()) as sampler:
        wait_for(sampler, 2)
        assert time.monotonic() - begun >= 1
    assert rows(path)[0]["interval_s"] == 1.0


def test_a_machine_without_cards_samples_the_host_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    path = tmp_path / "host_samples.0.jsonl"
    with Sampler(path, 0.05, environment=NOWHERE) as sampler:
        wait_for(sampler, 2)
    header, samples = rows(path)
    assert header["cards_by"] is None
    assert {row["device"] for row in samples} == {None}


def test_a_file_that_cannot_be_written_ends_the_sampling_and_not_the_run(tmp_path):
    with Sampler(tmp_path / "none" / "host_samples.0.jsonl", 0.05, environment=NOWHERE) as sampler:
        time.sleep(0.1)
    assert sampler.error == "host_samples.0.jsonl: No such file or directory"


def test_a_full_disk_ends_the_sampling_and_not_the_run():
    with Sampler(Path("/dev/full"), 0.05, environment=NOWHERE) as sampler:
        time.sleep(0.1)
    assert sampler.error == "full: No space left on device"
    sampler.stop()
