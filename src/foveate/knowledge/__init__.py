"""Knowledge learned offline from past conversations: topics, a profile, lessons, references, recommendations.

    gather ──► topics ──► lessons ──► model-1 … model-n ──► merge ──► finish
    turns      by vectors  by rules    in chunks, if any     with what is known

A run stores the result of each step and commits all its changes in one transaction at its end.
"""
