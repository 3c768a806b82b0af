"""From a problem to a schedule: strategies, and the code that hands problems to them."""
