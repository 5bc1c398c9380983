"""Recordings inside a program that is not tracelab's: windows, the start-up hook, and `tracelab.record`."""
