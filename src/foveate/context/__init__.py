"""What a model is shown of the turns: their tags, and in time the whole assembled context."""
