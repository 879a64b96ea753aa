"""An audit: what the service lists, compared with what a program holds."""
