"""Foveate keeps an LLM conversation going for ever inside a fixed token budget, with nothing lost."""

__version__ = "0.1.0"
