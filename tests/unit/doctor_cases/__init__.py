"""Stores in which a check of the doctor finds something, and what it finds: one case or more for each check."""

from tests.unit.doctor_cases import events, missing, ranks, recording, steps

CASES = [*recording.CASES, *ranks.CASES, *events.CASES, *steps.CASES, *missing.CASES]
