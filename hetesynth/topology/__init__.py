"""Everything that describes a cluster: the language, importers, calibration, lint."""
