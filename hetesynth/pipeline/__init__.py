"""What the commands do, in reading order: the only place that sees every stage. One module a job.

``synthesis``: from text to judged files. ``judging``: files that others made.
"""
