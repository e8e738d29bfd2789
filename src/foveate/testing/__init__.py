"""For authors of plug-ins: conformance suites of strategies and adapters, generated histories, and a scripted model."""
