"""Requests of programs that have their own copy of the conversation: new messages are recorded, each once."""
