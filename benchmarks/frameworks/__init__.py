"""What frameworks cost on a software GPU. ``python -m benchmarks.frameworks`` prints it."""
