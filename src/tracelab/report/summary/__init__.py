"""What matters in a run: five figures, and the findings with the largest share of its time.

report queries (answers) ──▶ figures ─┐
                         └─▶ leads ───┴─▶ RunSummary ──▶ text, rows, HTML
"""
