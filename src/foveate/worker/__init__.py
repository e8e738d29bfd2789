"""Background work: renditions, eras, the index, and what a model words better."""
