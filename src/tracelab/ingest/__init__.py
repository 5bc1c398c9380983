"""Turn trace files into a store: discover sources, group them into runs, read and commit each."""
