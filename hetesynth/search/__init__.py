"""From a problem to a schedule: strategies, and what hands problems to them."""
