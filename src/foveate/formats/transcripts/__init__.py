"""Transcript formats: what a program leaves on disk.

To add one, add a module here; its contract is `foveate.formats.TranscriptFormat`.
"""
