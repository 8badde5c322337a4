"""Faults that are planted in our own source, each of which must make a test fail: `make planted`."""
