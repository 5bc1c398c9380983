"""The formats of an answer, and the suffixes that ask for them; apart, for `--help` imports nothing heavy."""

FORMATS = ("table", "csv", "json", "jsonl", "parquet", "markdown")
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
"""Which format a file's name asks for."""
