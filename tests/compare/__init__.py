"""Tests of `tracelab compare`."""
