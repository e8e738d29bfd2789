"""A conversation with a model that never ends: each prompt is kept, answered within the budget, and kept again."""
