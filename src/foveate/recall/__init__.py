"""Search and recall: an index of every turn, ranking, and when recall runs."""
