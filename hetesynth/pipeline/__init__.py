"""What the commands do, in reading order: the only place that sees every stage. One module a job.

``synthesis``: from text to judged files. ``sizing``: the right schedule for a size. ``formats``: what each target
writes and how it is judged. ``judging``: files that others made. ``importing``: such files as schedules.
``running``: real bytes. ``simulation``: seconds.
"""
