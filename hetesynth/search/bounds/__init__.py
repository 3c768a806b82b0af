"""Lower bounds on steps and on seconds, each with a witness from which anyone can recheck it."""
