"""Results drawn: a page, a picture, a trace, SARIF."""
