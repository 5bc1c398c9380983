"""Start-up folder on the PYTHONPATH of a recorded program: its `sitecustomize` waits for the import of torch."""
