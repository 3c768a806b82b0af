"""Mutants that no test can notice, because the program does the same: each with the reason."""

EQUIVALENT: dict[str, str] = {}
