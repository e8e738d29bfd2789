"""Transcript formats: the files that programs write to disk.

To add one, add a module here; its contract is `foveate.formats.TranscriptFormat`.
"""
