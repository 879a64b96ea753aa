"""What the SDK costs, measured side by side with what people really use."""
