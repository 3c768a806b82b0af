"""Mutants of the judges: one small change of their source each, which some test has to notice."""
