"""Vectors are stored in little room, and the nearest are found among few and among many."""

import numpy as np

from foveate.recall.table import EXACT_PASSAGES, Floats, Vectors, pack, unpack

DIMENSIONS = 64


def some(count: int, seed: int = 0) -> Floats:
    """Vectors of length 1 in groups, as texts on the same subjects have."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((40, DIMENSIONS))
    rows = centres[random.integers(0, 40, count)] + 0.6 * random.standard_normal((count, DIMENSIONS)) + 0.5
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def held(rows: Floats, *, step: int = 1_000) -> Vectors:
    vectors = Vectors(DIMENSIONS)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        vectors.add(np.arange(start, start + len(part)), unpack(pack(part, range(len(part))), DIMENSIONS))
    return vectors


def test_a_vector_comes_back_almost_as_it_was() -> None:
    rows = some(20)
    stored = unpack(pack(rows, range(5, 25)), DIMENSIONS)
    assert stored["number"].tolist() == list(range(5, 25))
    assert np.abs(stored["row"] * stored["scale"][:, None] - rows).max() < 0.01


def test_vectors_of_another_size_are_none() -> None:
    assert len(unpack(pack(some(3), range(3)), DIMENSIONS * 2)) == 0
    assert len(unpack(b"", DIMENSIONS)) == 0
    assert len(unpack(pack(some(0), ()), DIMENSIONS)) == 0


def test_among_few_every_vector_is_compared() -> None:
    rows = some(500)
    alike = held(rows, step=70).compare(rows[7], 600)
    assert alike.is_exact
    assert np.abs(alike.at(range(500)) - rows @ rows[7]).max() < 0.02
    assert np.allclose(alike.at(range(500, 600)), alike.mean)
    assert np.allclose(alike.at([7, 550]), [1.0, alike.mean], atol=0.02)


def test_among_many_the_nearest_are_found() -> None:
    rows = some(EXACT_PASSAGES + 5_000)
    vectors = held(rows)
    found = []
    for question in some(20, seed=1):
        alike = vectors.compare(question, len(rows))
        assert not alike.is_exact
        best = set(np.argsort(-(rows @ question))[:20].tolist())
        order = np.argsort(-alike.found)[:20]
        found.append(len(best & set(alike.places[order].tolist())) / 20)
    assert np.mean(found) > 0.85


def test_equal_vectors_are_equally_near_wherever_they_stand() -> None:
    for count in (10, 50, EXACT_PASSAGES + 300):
        rows = some(count)
        rows[3::5] = rows[3]
        for question in some(20, seed=1):
            alike = held(rows).compare(question, count)
            equal = alike.found[alike.places % 5 == 3]
            assert len(set(equal.tolist())) <= 1
            assert np.abs(alike.found - rows[alike.places] @ question).max() < 0.02


def test_only_what_is_allowed_is_compared() -> None:
    for count in (300, EXACT_PASSAGES + 300):
        rows = some(count)
        allowed = np.zeros(count, np.bool_)
        allowed[10:20] = True
        alike = held(rows).compare(rows[0], count, allowed)
        assert alike.places.tolist() == list(range(10, 20))


def test_there_is_nothing_to_compare_in_an_empty_session() -> None:
    alike = Vectors(DIMENSIONS).compare(some(1)[0], 3)
    assert (alike.at(range(3)).tolist(), alike.at([1]).tolist()) == ([0, 0, 0], [0])
