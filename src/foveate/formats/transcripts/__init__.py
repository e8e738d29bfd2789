"""Transcript formats: what a program leaves on disk. To add one, add a module that has `foveate.formats.TranscriptFormat`."""
