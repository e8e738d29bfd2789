"""Commands in a sandbox: files, network, processes, memory, disk, output and time are limited."""
