"""The report and the summary of runs. `document` builds the report; `summary` needs nothing that draws."""
