"""What libraries do today, as strategies: routes that are fixed in advance, list-scheduled under the same laws.

Each module in: a copying problem. Out: for every chunk the arcs of a tree from a holder to all that want it, or
``NoRoute``. Nothing is searched for and no bound is looked at.
"""
