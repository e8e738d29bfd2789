"""What plug-in authors and our own tests share: conformance suites, and a made-up conversation."""
