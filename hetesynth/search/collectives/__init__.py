"""The eight collectives, inversion of reductions, and composition."""
