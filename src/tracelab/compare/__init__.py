"""Compare recordings of two versions of a program: effects with intervals, verdicts, gates."""
