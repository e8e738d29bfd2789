"""Adapters, one file per agent framework. Importing that file imports the framework; nothing else does.

`bridge` runs the library for programs that are synchronous or have their own event loop; `wrap` is for the
clients of the packages `openai` and `anthropic`.
"""
