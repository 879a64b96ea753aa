"""Listing every application: the planner of windows, and the iterator that drives it."""
