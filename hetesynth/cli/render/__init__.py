"""The text and the JSON of each command."""
