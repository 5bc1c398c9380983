"""Restrict a session to a part of the recordings: its views have only those rows, and the files stay as they are.

Scope (the request) ── criteria (stretches of time by thread) ──▶ RowMask (a bit a row) ──▶ views of a session
"""
