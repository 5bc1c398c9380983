"""`collect run`: any program, in a run folder like that of a workload."""
