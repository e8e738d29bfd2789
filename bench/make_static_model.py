"""Makes the bundled embedding model from the static MiniLM: 8-bit, one scale a row, and its word pieces.

    python bench/make_static_model.py ../shared/data/models/static-minilm-256

Writes src/foveate/recall/embed/static.npz. Needs numpy only.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).resolve().parents[1] / "src" / "foveate" / "recall" / "embed" / "static.npz"


def main(source: Path) -> None:
    data = (source / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    about = json.loads(data[8 : 8 + length])["embeddings"]
    first, last = about["data_offsets"]
    rows = np.frombuffer(data[8 + length + first : 8 + length + last], np.float16).reshape(about["shape"])
    pieces = json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    assert sorted(pieces.values()) == list(range(len(rows))), "every row is the vector of one word piece"
    exact = rows.astype(np.float32)
    scales = np.maximum(np.abs(exact).max(axis=1), 1e-8) / 127
    small = np.rint(exact / scales[:, None]).astype(np.int8)
    names = "\n".join(sorted(pieces, key=lambda piece: int(pieces[piece]))).encode()
    np.savez(TARGET, rows=small, scales=scales.astype(np.float32), pieces=np.frombuffer(names, np.uint8))
    lost = np.abs(small * scales[:, None] - exact).max()
    print(f"{TARGET.name}: {len(rows):,} word pieces, {TARGET.stat().st_size:,} bytes, rounding at most {lost:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
