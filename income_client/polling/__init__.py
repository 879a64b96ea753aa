"""Polling: reading what changed, again and again, from a checkpoint onwards."""
