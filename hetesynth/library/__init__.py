"""What a communication library (NCCL, RCCL) would do on a cluster, and how long it would take.

In: a ``Topology`` (``machine_of``) or a ``Machine``, a collective, bytes. Out: the algorithm, protocol and
channels that the library chooses by its own tables (``chosen``), and the seconds that such a run takes.
docs/reality.md compares them with published runs of nccl-tests and rccl-tests.
"""
