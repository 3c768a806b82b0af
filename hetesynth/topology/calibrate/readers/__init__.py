"""One file for each tool whose output is read."""
