"""The folder that a runtime loads: programs with all that is needed to use them on one cluster."""
