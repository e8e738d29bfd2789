"""Background work: renditions, eras, the index, and wording by a model."""
