"""Chart data for the report's scripts: panels, series and labels, as JSON."""
