"""Greedy rounds over steps at negotiated prices, and direct exchange."""
