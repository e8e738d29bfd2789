"""What plug-in authors and our own tests share: conformance suites, a scripted model, and a made-up conversation."""
