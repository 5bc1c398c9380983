"""Paths through a run on arrays: what waited for what, the critical path, and replays of changed runs."""
