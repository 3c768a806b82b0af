"""The benchmark: which cases, how each is measured, and the page of results."""
