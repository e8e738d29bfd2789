"""What a test runs in another process: importable there by name, as the test modules are not."""

from foveate.errors import SettingsError


def fail() -> None:
    raise SettingsError("store.synchronous", "takes full or normal")
