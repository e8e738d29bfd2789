"""Connections to coding agents: their settings files, their hooks, and the transcripts that they write.

- `clients` says which values of which files connect a client; `connection` writes and removes them; `changes`,
  `jsonc`, `toml` and `yaml` edit single values and leave all other bytes as they are.
- `hook` is what `foveate hook` does for a client that runs it.
- `watch` imports transcripts as they grow.
"""
