"""What `doctor` looks at, what each finding means, and how it is told."""
