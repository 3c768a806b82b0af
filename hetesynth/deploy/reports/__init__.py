"""What a build came to, for machines and people: each report is a function of one ``BuildReport``."""
