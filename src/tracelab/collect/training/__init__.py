"""The process of one rank: it sets up the workload, trains, and logs each step."""
