"""Columns of a table of instructions: numbers of operation and buffers as in ``program.OPS`` and
``program.BUFFERS``, offsets and count, the thread block and step it depends on, whether a step depends on it. -1:
there is none."""

OP, SRC_BUFFER, SRC, DST_BUFFER, DST, COUNT, BLOCK, STEP, AWAITED = range(9)
