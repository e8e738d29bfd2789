"""A recorded conversation played again, turn by turn, to compare strategies and budgets."""
