"""The algorithms of libraries as strategies: routes fixed in advance, list-scheduled under the same laws."""
