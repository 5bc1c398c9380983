"""Recordings in training libraries: one module for each, which imports that library."""
