"""Bounds rechecked from their witnesses."""
