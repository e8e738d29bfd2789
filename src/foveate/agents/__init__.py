"""Programs that talk to a model: a chat, a run on an epic, the compression agent."""
