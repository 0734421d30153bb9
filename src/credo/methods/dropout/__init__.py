"""Methods that keep dropout on when they predict."""
