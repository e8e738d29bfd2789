"""The history of a context: sizes of turns, the plan, its blocks as text, and recalled memory."""
