"""Repair: from a schedule of the cluster as it was to one of the cluster as it is."""
