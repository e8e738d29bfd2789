"""What a context shows of the past: stored sizes in, a plan, its blocks written out, and what a prompt recalls."""
