"""Ceilings: what a machine can do at most, measured with torch alone, as rows that rooflines are drawn under."""
