"""Simulate ranks of a distributed training job over an explicit dependency graph, so that all answers are known.

from job_simulator import Job, SlowCompute, simulate
simulation = simulate(Job(ranks=8, pipeline=2, tensor=2, steps=3, seed=1, delays=(SlowCompute(5, 130),)))
simulation.write_kineto(folder)          # traces of all ranks, by their own clocks
simulation.collectives, simulation.totals(), simulation.critical_path(), simulation.what_if_ideal_network()
"""

from job_simulator.critical_path import PathPart
from job_simulator.lateness import Approach
from job_simulator.pipeline import Bubble
from job_simulator.settings import (
    START_NS,
    Clock,
    Cut,
    Delay,
    Group,
    HostPause,
    Job,
    LoaderStall,
    SlowCompute,
    SlowHost,
    SlowLink,
)
from job_simulator.simulation import Collective, RankTotals, Simulation, simulate
from job_simulator.timed_graph import CPU_KINDS, GPU_KINDS, Edge, Kind, Reason, Row

__all__ = [
    "CPU_KINDS",
    "GPU_KINDS",
    "START_NS",
    "Approach",
    "Bubble",
    "Clock",
    "Collective",
    "Cut",
    "Delay",
    "Edge",
    "Group",
    "HostPause",
    "Job",
    "Kind",
    "LoaderStall",
    "PathPart",
    "RankTotals",
    "Reason",
    "Row",
    "Simulation",
    "SlowCompute",
    "SlowHost",
    "SlowLink",
    "simulate",
]
