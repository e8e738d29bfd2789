"""Patches of files: Codex's format and unified diffs, applied to all files or to none.

text ──► parse ──► match against the files ──► plan of new contents ──► commit ──► syntax warnings
"""
