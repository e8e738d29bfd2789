"""`foveate serve`: one process with the gateway, the HTTP API and MCP. It needs the extra `foveate[server]`."""
