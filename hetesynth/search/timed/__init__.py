"""Strategies that count seconds."""
