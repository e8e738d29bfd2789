"""Pages and searches: URLs are checked before each connection, and the results are treated as data."""
