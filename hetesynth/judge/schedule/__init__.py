"""Schedules replayed step by step."""
