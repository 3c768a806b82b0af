"""Any program or schedule to a ``Schedule`` on given links, by what it moves and what waits."""
