"""The process that confines and supervises a command.

It is a program of its own, made of the standard library alone, so that it starts in milliseconds and imports nothing
that a command could have changed:

    foveate ── supervisor ── command and all its descendants
                  │            rlimits, no new privileges, no capabilities, Landlock, seccomp
                  └─ counts and kills them, answers the system calls that the filter hands to it
"""
