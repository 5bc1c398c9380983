"""The readers: each knows one family of formats, and turns a file into rows of the canonical schema."""
