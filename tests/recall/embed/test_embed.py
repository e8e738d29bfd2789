"""Which model makes vectors, and what is said if it can't be had."""

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest

from foveate.errors import SettingsError
from foveate.recall.embed import STATIC_NAME, static
from foveate.recall.embed.minilm import MinilmEmbedder
from foveate.recall.embed.static import StaticEmbedder
from foveate.settings import load_settings
from support.paths import ROOT

MINILM = ROOT.parent / "shared" / "data" / "models" / "minilm-l6-int8.onnx"


def test_the_default_is_the_model_in_the_package() -> None:
    embedder = StaticEmbedder()
    assert (embedder.name, embedder.dimensions) == (STATIC_NAME, static.DIMENSIONS)
    assert static.NAME == STATIC_NAME
    assert np.array_equal(asyncio.run(embedder.embed(["a harbour"])), static.embed(["a harbour"]))


def test_a_name_that_is_none_is_told() -> None:
    with pytest.raises(SettingsError, match=r"recall: embeddings takes static, minilm or an address; got 'wordy'"):
        load_settings(environment={}, overrides={"recall": {"embeddings": "wordy"}})


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SettingsError, match=r"install foveate\[minilm\]"):
        MinilmEmbedder(MINILM)


def test_a_model_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsError, match=r"recall\.model_path: there is no file"):
        MinilmEmbedder(Path("no/such.onnx"))


@pytest.mark.skipif(not MINILM.exists(), reason="needs the model's file")
def test_minilm_puts_what_means_the_same_together() -> None:
    one, two, other = asyncio.run(
        MinilmEmbedder(MINILM).embed(["The invoice is overdue.", "An unpaid bill.", "My dog barks."])
    )
    assert one @ two > one @ other
    assert np.isclose(np.linalg.norm(one), 1.0, atol=1e-5)
