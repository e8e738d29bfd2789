"""The gateway: LLM clients talk to it as to their provider, and their conversations become sessions."""
