"""The query library: parse query files, find queries by name, bind parameters and run them."""
