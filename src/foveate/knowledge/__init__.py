"""What past conversations teach, learned offline: topics, a profile, lessons, references, recommendations.

    gather ──► topics ──► lessons ──► model-1 … model-n ──► merge ──► finish
    turns      by vectors  by rules    in chunks, if any     with what is known

A run keeps the result of each step and writes all its changes in one transaction at its end.
"""
