"""The nouns, frozen: topologies, collectives, problems, schedules, bounds, programs, plans, targets."""
