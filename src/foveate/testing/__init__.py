"""For authors of plug-ins: conformance suites of strategies and adapters, made-up histories, and a scripted model."""
