"""Compression of turns: rules first, then a model if one is configured, and a guard that checks the result."""
