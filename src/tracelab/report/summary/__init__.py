"""What matters in a run: five figures, and the findings with the largest recoverable share of its time.

report queries (answers) ──▶ figures ─┐
                         └─▶ leads ───┴─▶ RunSummary ──▶ text, rows, HTML
"""
