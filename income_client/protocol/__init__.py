"""What the service means, decided on values: nothing here waits, logs or looks at a clock."""
