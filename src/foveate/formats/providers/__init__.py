"""Message formats: what a provider's API takes."""
