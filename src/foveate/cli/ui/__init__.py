"""Shared by all commands: options, terminal output, and the picture of a context."""
