"""Replay of recorded conversations, turn by turn, to compare strategies and budgets."""
