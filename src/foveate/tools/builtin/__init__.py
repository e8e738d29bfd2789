"""The built-in tools: one module each, named as the tool."""
