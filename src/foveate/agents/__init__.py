"""Programs that talk to a model for you: a chat, a run on an epic, the compression agent."""
