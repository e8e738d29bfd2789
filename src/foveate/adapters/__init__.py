"""One file for each agent framework. A framework is imported when its file is, and nowhere else.

`bridge` runs the library for programs that are synchronous or have an event loop of their own; `wrap` is for the
clients of the packages `openai` and `anthropic`.
"""
