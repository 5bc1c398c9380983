"""Sweeps: a matrix of settings becomes cells, and each cell a run; what is done is known by the run folders alone."""
