"""What commands share: options, the terminal, and the picture of a context."""
