"""May a callback be believed, and what does it say: request facts in, a value or a refusal out."""
