"""`foveate serve`: the gateway, the HTTP API, MCP and the dashboard in one process. Needs `foveate[server]`."""
