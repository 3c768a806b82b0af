"""The work of each command, without parsing and printing."""
