"""Compare published studies with recorded runs: each row of a study is a SQL file, each figure a CSV line.

`data/studies/` holds the figures with their places, `queries/studies/` a file a row: both formulas, what to capture,
the library queries that it uses, SQL for the cells (published, study's and corrected figure) and SQL for the verdict.
No code here depends on a particular row.
"""
