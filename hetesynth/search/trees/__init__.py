"""Balanced trees, tree packing and the step LP."""
