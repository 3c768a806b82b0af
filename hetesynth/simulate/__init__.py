"""Schedules, programs and plans simulated: a transfer graph in, a timeline out."""
