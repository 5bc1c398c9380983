"""Data formats of results and their file suffixes; imports nothing heavy, so that `--help` stays fast."""

FORMATS = ("table", "csv", "csv-spreadsheet", "json", "jsonl", "parquet", "markdown")
SUFFIXES = {
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".md": "markdown",
    ".markdown": "markdown",
}
"""Formats by file suffix."""
