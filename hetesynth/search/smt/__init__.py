"""Schedules by a solver: CEGIS, the monolithic model, neighbourhood search."""
