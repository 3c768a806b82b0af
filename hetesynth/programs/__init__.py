"""From schedules to programs, for each runtime a folder."""
