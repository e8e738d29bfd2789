"""The HTTP API under /api/v1: one module per resource; `endpoint` runs them, `schema` describes them."""
