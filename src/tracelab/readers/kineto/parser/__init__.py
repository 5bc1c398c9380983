"""Parsers of Chrome traces: one in C that runs as WebAssembly, and a slower one in Python where that cannot run."""
