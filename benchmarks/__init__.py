"""Cost of the SDK, measured side by side with other common ways."""
