"""Variational inference: the closest member of a family to the posterior."""
