"""Ceilings: peak rates of a machine, measured with torch alone, for rooflines."""
