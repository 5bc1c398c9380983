"""Readers: each parses one family of trace formats into rows of the schema; `base` has their contract and list."""
