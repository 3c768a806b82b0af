"""The benchmark: which cases, how each is measured, and the page that tells of them."""
