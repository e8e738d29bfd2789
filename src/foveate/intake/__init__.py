"""Requests of programs that keep a copy of the conversation: what is new in them is recorded, each message once."""
