"""Training workloads run on GPU nodes, and profiles of them captured: needs click and torch alone."""
