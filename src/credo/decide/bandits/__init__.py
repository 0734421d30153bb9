"""Bandits: choose one of several arms by a context, see its reward alone, and learn from it."""
