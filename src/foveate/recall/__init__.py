"""What was blurred is found again: an index of every turn, a ranking of what it finds, and the layer that shows it."""
