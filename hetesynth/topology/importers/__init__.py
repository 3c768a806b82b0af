"""Files that clusters have -> text of the topology language.

In: topology dumps, tables of command line tools, edge lists: bytes that anybody wrote. Out: ``Machine``s and a
``Fabric``, and from them readable text that the frontend has read back. Knows nothing of chunks and steps.
"""
