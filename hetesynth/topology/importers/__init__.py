"""Files that clusters have, written by anybody -> text of the topology language, read back by the frontend."""
