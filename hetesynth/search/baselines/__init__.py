"""What libraries do today, as strategies: routes that are fixed in advance, list-scheduled under the same laws."""
