"""Replay recorded conversations, turn by turn, to compare strategies and budgets."""
