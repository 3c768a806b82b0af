"""The page of a report, one file with its data and scripts."""
