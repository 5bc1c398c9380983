"""Published studies beside the data at hand: each row of a study is a file of SQL, each figure a line of a table.

`data/studies/` holds the figures with their places, `queries/studies/` a file a row: both formulas, what to capture,
the questions of the library that it draws on, SQL that lays published, study's and corrected figure side by side, and
SQL that gives the verdict. Nothing here knows a row by name.
"""
