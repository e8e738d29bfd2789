"""Pages and searches: URLs are checked before each connection, and what comes back is data."""
