"""The gateway: a proxy between LLM clients and their provider that records their conversations as sessions."""
