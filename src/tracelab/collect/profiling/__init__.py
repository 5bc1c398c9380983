"""Profilers around the recorded steps of a run: schedule, NVTX ranges, kineto, and nsys or ncu from outside."""
