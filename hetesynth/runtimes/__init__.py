"""What executes our programs where nobody else's runtime does."""
