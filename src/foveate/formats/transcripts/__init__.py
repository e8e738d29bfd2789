"""Transcript formats: what a program leaves on disk."""
