"""The store on disk: writing and committing sources, and opening them as DuckDB views and macros."""
