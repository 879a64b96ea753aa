"""What the SDK costs, measured against the emulator; run with ``python -m benchmarks.core``."""
