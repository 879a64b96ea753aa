"""Signals, and work that ends when they come."""
