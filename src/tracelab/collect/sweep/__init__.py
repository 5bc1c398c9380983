"""Sweeps: a matrix of settings expands to cells, and each cell to a run; run folders alone hold the progress."""
