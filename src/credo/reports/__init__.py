"""Figures, tables and pages: arrays and run folders in, pictures and text out."""
