"""Contexts: tags, pins, board and memory, assembled within the budget."""
