"""Connections to coding agents: their settings files, their hooks, and the transcripts that they write.

- `clients` defines which values of which files connect a client; `connection` writes and removes them; `changes`,
  `jsonc`, `toml` and `yaml` edit single values and keep all other bytes.
- `hook` implements `foveate hook`, which a client runs.
- `watch` imports transcripts as they grow.
"""
