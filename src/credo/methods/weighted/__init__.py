"""Draws with importance weights."""
