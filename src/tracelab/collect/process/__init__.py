"""Processes of a run: where its ranks run, how they start and find each other, and how they end."""
