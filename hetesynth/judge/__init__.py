"""The judges; they share no code with what they judge."""
