"""From a request to judged files: the stages put together."""
