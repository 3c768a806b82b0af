"""The choice for a size: candidate specs are tried, their programs timed, the best kept."""
