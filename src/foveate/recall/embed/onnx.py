"""Models from .onnx files of the user's, run by onnxruntime, which is an extra."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from foveate.errors import SettingsError


def load_session(path: Path, *, key: str, otherwise: str) -> Any:
    """A file's session on one thread; the `SettingsError` names the setting `key`, and what else can be done."""
    try:
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError as error:
        raise SettingsError(key, f"needs onnxruntime; install foveate[minilm], or {otherwise}") from error
    if not path.is_file():
        raise SettingsError(key, f"there is no file {path}; name the .onnx file of the model")
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options)
    except Exception as error:  # the package's errors have no root of their own
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SettingsError(key, f"{path.name} can't be read as an ONNX model: {problem}") from error
