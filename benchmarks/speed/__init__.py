"""What durability costs: `python -m speed` in `benchmarks/`, or `make bench`."""
