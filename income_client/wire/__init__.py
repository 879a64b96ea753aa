"""JSON to records and back: strict, exact and compiled."""
