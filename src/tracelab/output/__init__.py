"""Results as text: tables, CSV, JSON, Parquet, Markdown, notebook HTML, with units and shortened names."""
