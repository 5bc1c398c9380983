"""Results as text, data formats and frames: tables with units, CSV, JSON, Parquet, Markdown, notebook HTML, polars."""
