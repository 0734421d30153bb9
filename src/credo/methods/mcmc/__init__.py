"""Markov chains whose states are draws from the posterior."""
