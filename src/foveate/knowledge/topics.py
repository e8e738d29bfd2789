"""Topics without a model: clusters of the turns' vectors, labelled by their characteristic words.

A turn is combined with its neighbours, since a short turn alone says little. The clusters of a long history are
found in a sample of it; every turn is then compared with their centres.

Known topics are kept: their centres are the means of their source turns, and new clusters are searched among the
turns that are far from all of them. Only if the known topics explain too little are all clusters found anew, and then a
cluster keeps the id of the known topic whose source turns it has.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from foveate.compress.facts import CJK
from foveate.compress.lexicon import stem, word_weight
from foveate.compress.marks import one_line
from foveate.knowledge.gather import Gathered, LearnedTurn
from foveate.knowledge.items import item_id
from foveate.recall.scopes import Scope
from foveate.store.knowledge import PERSON, KnowledgeRow, KnowledgeSource, NewKnowledge, TurnTopicRow
from foveate.words import stop_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from foveate.recall.table import Floats

    Labels = NDArray[np.int64]

MIN_TURNS = 6
"""Minimum number of turns for topics."""
MIN_TOPIC_TURNS = 3
"""Minimum number of turns of a topic; in a long history a quarter of the square root of the turns."""
MAX_SAMPLE = 6_000
"""Maximum number of turns in which clusters are searched."""
MAX_TOPICS = 400
DIMENSIONS = 64
"""Number of principal components by which turns are compared."""
CLUSTER_DIMENSIONS = 24
"""Number of principal components in which clusters are searched."""
NEIGHBOUR_SHARE = 0.5
"""Weight of the previous and the next turn."""
LEAST_ALIKE = 0.4
"""Minimum similarity of a turn to the centre of its topic."""
NEXT_SHARE = 0.9
"""A turn gets another topic if its similarity is at least this share of the nearest one's."""
MAX_TURN_TOPICS = 3
MAX_SOURCES = 50
"""Maximum number of source turns of a topic: those nearest to its centre."""
SAME_TOPIC = 0.3
"""Minimum share of a known topic's source turns that its new cluster must contain."""
EXPLAINED_SHARE = 0.6
"""The known topics are kept if at least this share of the turns is near to one of them."""
NEW_SHARE = 0.5
"""Minimum share of turns since the last run in a cluster that becomes an additional topic."""
MAX_LABELLED = 300
"""Maximum number of turns of a topic whose words are counted."""
LABELLED_CHARS = 1_500
MAX_KEYWORDS = 10
MIN_WORD_CHARS = 3
TITLE_WORDS = 3
COMMON_SHARE = 0.3
"""Weight of a common word, compared with one that can name a subject."""
MIN_TITLE_WEIGHT = 0.3
"""A rarer word than this is preferred for a title: `make`, `look` and the like name no subject."""
PHRASE_SHARE = 0.6
"""Two words that stand together in this share of the turns of each are a name: `rye bread`."""
SMALL_TALK_WORDS, SMALL_TALK_CHARS = 2, 200
SMALL_TALK_SHARE = 0.5
EXAMPLES = 3
EXAMPLE_CHARS = 200
MIN_WEIGHT = 0.05
HALF_LIFE_DAYS = 30
"""Age difference to the newest turn at which a turn's contribution to its topic's weight is halved."""
BATCH = 4_096
ROUNDS = 20
DAY_US = 86_400_000_000

_MARK = re.compile(r"\[[a-z]+\] |\{[^{}]*\}")
_WORD = re.compile(rf"[{CJK}]+|[^\W\d_{CJK}][\w.'\u2019-]*[^\W_]|[^\W\d_]")
_CJK_RUN = re.compile(rf"[{CJK}]+")


@dataclass(frozen=True, slots=True)
class TopicsFound:
    """The topics of a scope, and the topics of each turn by session."""

    items: tuple[NewKnowledge, ...] = ()
    turn_topics: tuple[tuple[str, TurnTopicRow], ...] = ()


def find_topics(gathered: Gathered, vectors: Floats, known: Sequence[KnowledgeRow]) -> TopicsFound:
    """Find the topics of the turns, given a row of vectors per turn. `known` are the items of the scope; known topics
    keep their ids."""
    import numpy as np  # noqa: PLC0415 - loads when something is learned

    turns = gathered.turns
    has_vector = np.abs(vectors).max(axis=1, initial=0) > 0 if len(vectors) else np.zeros(0, bool)
    if int(has_vector.sum()) < MIN_TURNS:
        return TopicsFound()
    directions = _directions(vectors, has_vector, turns)
    topics = [row for row in known if row.kind == "topic"]
    clusters = _clusters(turns, directions, np.flatnonzero(has_vector), topics)
    if not clusters:
        return TopicsFound()
    clusters = _distinct(turns, clusters)
    if not clusters:
        return TopicsFound()
    ids = _ids(gathered.scope, turns, clusters, topics)
    by_id = {row.id: row for row in topics}
    refused = {row.id for row in topics if row.state == "retired" and row.maker == PERSON}
    labels = _labels(turns, clusters)
    items, rows = [], []
    heaviest = max(_attention(turns, cluster) for cluster in clusters)
    for topic, cluster, label in zip(ids, clusters, labels, strict=True):
        if topic in refused or not label.keywords:
            continue
        rows += [
            (turns[place].source.session_id, TurnTopicRow(turns[place].source.turn, topic, round(weight, 2)))
            for place, weight in cluster.every
        ]
        weight = max(MIN_WEIGHT, round(_attention(turns, cluster) / heaviest, 2))
        items.append(_item(gathered, topic, cluster, label, before=by_id.get(topic), weight=weight))
    items = _with_areas(items, dict(zip(ids, clusters, strict=True)), directions)
    rows.sort(key=lambda row: (row[0], row[1].turn, -row[1].weight, row[1].topic))
    return TopicsFound(tuple(sorted(items, key=lambda item: item.id)), tuple(rows))


def _distinct(turns: Sequence[LearnedTurn], clusters: Sequence[_Cluster]) -> list[_Cluster]:
    """Drop clusters of small talk, and join those with the same name."""
    kept = [
        cluster
        for cluster in clusters
        if sum(is_small_talk(turns[place]) for place, _ in cluster.own) <= SMALL_TALK_SHARE * len(cluster.own)
    ]
    found: dict[frozenset[str], _Cluster] = {}
    for cluster, label in zip(kept, _labels(turns, kept) if kept else (), strict=True):
        name = frozenset(label.names[:TITLE_WORDS])
        other = found.get(name)
        found[name] = cluster if other is None else other.joined(cluster)
    return sorted(found.values(), key=lambda cluster: (-len(cluster.own), cluster.own[0]))


def is_small_talk(turn: LearnedTurn) -> bool:
    """Return whether a turn says hardly anything: greetings, thanks, laughter."""
    said = {root for root, _ in _words(turn.user[:LABELLED_CHARS])}
    return len(said) < SMALL_TALK_WORDS and len(turn.assistant) < SMALL_TALK_CHARS and not turn.tools


def _with_areas(
    items: Sequence[NewKnowledge], clusters: Mapping[str, _Cluster], directions: Floats
) -> list[NewKnowledge]:
    """Group topics into areas, each named by its heaviest topic: those whose centres are alike."""
    import numpy as np  # noqa: PLC0415

    areas: list[tuple[str, Floats]] = []
    found = []
    for item in sorted(items, key=lambda item: (-item.weight, item.id)):
        centre = _unit(directions[[place for place, _ in clusters[item.id].own]].mean(axis=0)[None, :])[0]
        alike = [float(np.dot(centre, other)) for _, other in areas]
        best = max(range(len(alike)), key=alike.__getitem__, default=None)
        if best is None or alike[best] < LEAST_ALIKE:
            areas.append((item.title, centre))
            best = len(areas) - 1
        found.append(replace(item, area=areas[best][0]))
    return found


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Positions of turns with their similarity to the centre, the nearest first."""

    own: tuple[tuple[int, float], ...]
    """The turns for which no other centre is nearer."""
    every: tuple[tuple[int, float], ...]

    def joined(self, other: _Cluster) -> _Cluster:
        """Return one cluster with the turns of both."""
        every = dict(sorted((*other.every, *self.every), key=itemgetter(1)))
        return _Cluster(_nearest_first((*self.own, *other.own)), _nearest_first(every.items()))


def _clusters(
    turns: Sequence[LearnedTurn], directions: Floats, places: Labels, known: Sequence[KnowledgeRow]
) -> list[_Cluster]:
    """Cluster the turns at these positions."""
    import numpy as np  # noqa: PLC0415

    least_turns = max(MIN_TOPIC_TURNS, round(math.sqrt(min(len(places), MAX_SAMPLE)) / 4))
    centres = _known_centres(turns, directions, known)
    if len(centres):
        is_near = np.zeros(len(turns), bool)
        for start in range(0, len(turns), BATCH):
            is_near[start : start + BATCH] = (directions[start : start + BATCH] @ centres.T).max(axis=1) >= LEAST_ALIKE
        if is_near[places].mean() >= EXPLAINED_SHARE:
            newest_us = max(row.last_seen_us for row in known)
            is_new = np.fromiter((turn.at_us > newest_us for turn in turns), bool, len(turns))
            centres = np.concatenate([centres, _new_centres(directions, places[~is_near[places]], is_new, least_turns)])
            return _members(directions, centres[:MAX_TOPICS], least_turns)
    sample = _sample(turns, places)
    centres = _centres(directions[sample], _cluster(directions[sample], least_turns), least_turns)
    return _members(directions, centres, least_turns) if len(centres) else []


def _known_centres(turns: Sequence[LearnedTurn], directions: Floats, known: Sequence[KnowledgeRow]) -> Floats:
    """Return the mean direction of the remaining source turns of each known topic."""
    import numpy as np  # noqa: PLC0415

    place_of = {turn.source: place for place, turn in enumerate(turns)}
    sources = [[place_of[source] for source in row.sources if source in place_of] for row in known]
    means = [directions[places].mean(axis=0) for places in sources if places]
    return _unit(np.stack(means)) if means else np.zeros((0, directions.shape[1]), np.float32)


def _new_centres(directions: Floats, places: Labels, is_new: NDArray[np.bool_], least_turns: int) -> Floats:
    """Return the centres of clusters far from all known topics, most of whose turns are newer than these topics."""
    import numpy as np  # noqa: PLC0415

    places = places[-MAX_SAMPLE:]
    if int(is_new[places].sum()) < least_turns:
        return np.zeros((0, directions.shape[1]), np.float32)
    labels = _cluster(directions[places], least_turns)
    for label in range(int(labels.max()) + 1):
        if is_new[places][labels == label].mean() < NEW_SHARE:
            labels[labels == label] = -1
    return _centres(directions[places], labels, least_turns)


def _directions(vectors: Floats, has_vector: NDArray[np.bool_], turns: Sequence[LearnedTurn]) -> Floats:
    """Project the vectors onto their principal components, without their mean, each combined with its neighbours."""
    import numpy as np  # noqa: PLC0415

    size = vectors.shape[1]
    count = int(has_vector.sum())
    mean = vectors.sum(axis=0, dtype=np.float64) / count
    spread = np.zeros((size, size))
    for start in range(0, len(vectors), BATCH):
        some = vectors[start : start + BATCH][has_vector[start : start + BATCH]] - mean
        spread += some.T @ some
    _, columns = np.linalg.eigh(spread)
    main = columns[:, ::-1][:, : min(DIMENSIONS, size)]
    # The sign of a component is arbitrary; fixed, so that the same turns give the same numbers everywhere.
    main = main * np.where(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])] < 0, -1, 1)
    projected = np.zeros((len(vectors), main.shape[1]), np.float32)
    for start in range(0, len(vectors), BATCH):
        end = start + BATCH
        projected[start:end] = (vectors[start:end] - mean) @ main
    projected = _unit(projected * has_vector[:, None])
    order = np.array(sorted(range(len(turns)), key=lambda place: turns[place].source), np.int64)
    ordered = projected[order]
    sessions = [turns[place].source.session_id for place in order]
    is_next = np.array([one == two for one, two in pairwise(sessions)], np.float32)[:, None]
    joined = ordered.copy()
    joined[1:] += NEIGHBOUR_SHARE * is_next * ordered[:-1]
    joined[:-1] += NEIGHBOUR_SHARE * is_next * ordered[1:]
    result = np.empty_like(joined)
    result[order] = joined
    return _unit(result * has_vector[:, None])


def _unit(rows: Floats) -> Floats:
    import numpy as np  # noqa: PLC0415

    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return unit


def _sample(turns: Sequence[LearnedTurn], places: Labels) -> Labels:
    """Choose the positions in which clusters are searched. As the history grows, most of the sample stays the same."""
    import numpy as np  # noqa: PLC0415

    if len(places) <= MAX_SAMPLE:
        return places
    chosen = sorted(places.tolist(), key=lambda place: _mixed(turns[place].source))[:MAX_SAMPLE]
    return np.array(sorted(chosen), np.int64)


def _mixed(source: KnowledgeSource) -> bytes:
    return hashlib.blake2b(f"{source.session_id}\0{source.turn}".encode(errors="replace"), digest_size=8).digest()


def _cluster(rows: Floats, least_turns: int) -> Labels:
    """Return the cluster of each row; -1: none."""
    rows = _unit(rows[:, :CLUSTER_DIMENSIONS])
    try:
        from sklearn.cluster import HDBSCAN  # type: ignore[import-untyped]  # noqa: PLC0415 - of the extra `knowledge`
    except ImportError:
        return nearest_means(rows, least_turns)
    found: Labels = (
        HDBSCAN(
            min_cluster_size=least_turns,
            min_samples=min(3, least_turns),
            cluster_selection_method="leaf",
            copy=True,
        )
        .fit(rows)
        .labels_
    )
    return found


def nearest_means(rows: Floats, least_turns: int) -> Labels:
    """Cluster without scikit-learn: k-means on directions, with as many clusters as could have twice the minimum size.

    It starts with rows far from each other, and is deterministic.
    """
    import numpy as np  # noqa: PLC0415

    count = max(1, min(MAX_TOPICS, round(math.sqrt(len(rows))), len(rows) // (2 * least_turns)))
    chosen = [int((rows @ rows.mean(axis=0)).argmax())]
    nearest = rows @ rows[chosen[0]]
    random = np.random.default_rng(0)
    for _ in range(count - 1):
        odds = np.cumsum(np.maximum(1 - nearest, 0, dtype=np.float64) ** 2)
        place = min(int(np.searchsorted(odds, random.random() * odds[-1])), len(rows) - 1)
        chosen.append(place)
        nearest = np.maximum(nearest, rows @ rows[place])
    means = rows[chosen]
    labels = np.zeros(len(rows), np.int64)
    for _ in range(ROUNDS):
        alike = rows @ means.T
        found = alike.argmax(axis=1)
        if (found == labels).all():
            break
        labels = found
        sums = np.zeros_like(means)
        np.add.at(sums, labels, rows)
        means = _unit(sums)
    labels[(rows @ means.T).max(axis=1) < LEAST_ALIKE] = -1
    return labels


def _centres(rows: Floats, labels: Labels, least_turns: int) -> Floats:
    """Return the mean direction of each cluster that is large enough, the largest first."""
    import numpy as np  # noqa: PLC0415

    sizes = Counter(int(label) for label in labels if label >= 0)
    large = [label for label, size in sizes.most_common(MAX_TOPICS) if size >= least_turns]
    if not large:
        return np.zeros((0, rows.shape[1]), np.float32)
    return _unit(np.stack([rows[labels == label].mean(axis=0) for label in large]))


def _members(directions: Floats, centres: Floats, least_turns: int) -> list[_Cluster]:
    """Assign turns to centres; a centre with too few turns is dropped."""
    import numpy as np  # noqa: PLC0415

    own: list[list[tuple[int, float]]] = [[] for _ in centres]
    every: list[list[tuple[int, float]]] = [[] for _ in centres]
    for start in range(0, len(directions), BATCH):
        alike = directions[start : start + BATCH] @ centres.T
        best = alike.max(axis=1)
        for row in np.flatnonzero(best >= LEAST_ALIKE).tolist():
            near = np.flatnonzero(alike[row] >= max(LEAST_ALIKE, NEXT_SHARE * best[row]))
            ranked = near[np.argsort(-alike[row, near], kind="stable")].tolist()
            own[ranked[0]].append((start + row, float(best[row])))
            for centre in ranked[:MAX_TURN_TOPICS]:
                every[centre].append((start + row, min(1.0, float(alike[row, centre]))))
    clusters = [_Cluster(_nearest_first(mine), _nearest_first(all_)) for mine, all_ in zip(own, every, strict=True)]
    found = [cluster for cluster in clusters if len(cluster.own) >= least_turns]
    return sorted(found, key=lambda cluster: (-len(cluster.own), cluster.own[0]))


def _nearest_first(members: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(members, key=lambda member: (-member[1], member[0])))


def _ids(
    scope: Scope, turns: Sequence[LearnedTurn], clusters: Sequence[_Cluster], known: Sequence[KnowledgeRow]
) -> list[str]:
    """Return an id for each cluster: that of the known topic most of whose source turns it contains, otherwise a new
    one."""
    cluster_of = {turns[place].source: number for number, cluster in enumerate(clusters) for place, _ in cluster.own}
    present = {turn.source for turn in turns}
    shares: list[tuple[float, int, str]] = []
    for row in known:
        sources = [source for source in row.sources if source in present]
        counts = Counter(cluster_of[source] for source in sources if source in cluster_of)
        shares += [(count / len(sources), number, row.id) for number, count in counts.items()]
    ids: dict[int, str] = {}
    taken = {row.id for row in known}
    matched: set[str] = set()
    for share, number, topic in sorted(shares, key=lambda each: (-each[0], each[1], each[2])):
        if share >= SAME_TOPIC and number not in ids and topic not in matched:
            ids[number] = topic
            matched.add(topic)
    for number, cluster in enumerate(clusters):
        if number not in ids:
            ids[number] = _new_id(scope, turns[cluster.own[0][0]].source, taken)
            taken.add(ids[number])
    return [ids[number] for number in range(len(clusters))]


def _new_id(scope: Scope, nearest: KnowledgeSource, taken: set[str]) -> str:
    """Derive an id from the turn nearest to the centre, which no other topic of the run has."""
    identity = f"{nearest.session_id} {nearest.turn}"
    while (found := item_id(scope, "topic", identity)) in taken:
        identity += " again"
    return found


def _attention(turns: Sequence[LearnedTurn], cluster: _Cluster) -> float:
    """Compute the weight of a topic: its number of turns, recent ones above all."""
    newest = turns[-1].at_us
    return math.fsum(0.5 ** ((newest - turns[place].at_us) / (HALF_LIFE_DAYS * DAY_US)) for place, _ in cluster.own)


def _labels(turns: Sequence[LearnedTurn], clusters: Sequence[_Cluster]) -> list[_Label]:
    """Return the characteristic words of each cluster (c-TF-IDF): frequent in it, and rare in the others. The heaviest
    has 1."""
    counts: list[Counter[str]] = []
    spelled: dict[str, Counter[str]] = {}
    phrases: list[Counter[tuple[str, str]]] = []
    for cluster in clusters:
        found: Counter[str] = Counter()
        together: Counter[tuple[str, str]] = Counter()
        for place, _ in cluster.own[:MAX_LABELLED]:
            if is_small_talk(turns[place]):
                continue
            row = list(_words(_text(turns[place])))
            words = dict(row)
            found.update(words.keys())
            together.update(
                {(one, two) for (one, _), (two, _) in pairwise(row) if one != two and not _CJK_RUN.fullmatch(one)}
            )
            for root, word in words.items():
                spelled.setdefault(root, Counter())[word] += 1
        counts.append(found)
        phrases.append(together)
    every: Counter[str] = Counter()
    for found in counts:
        every.update(found)
    average = sum(every.values()) / len(counts)
    labels = []
    for found, together in zip(counts, phrases, strict=True):
        total = max(1, sum(found.values()))
        # A word of only one turn is not characteristic.
        weights = {
            root: count / total * math.log1p(average / every[root]) * (1 if _names(spelled[root]) else COMMON_SHARE)
            for root, count in found.items()
            if count > 1 or len(found) <= MAX_KEYWORDS
        }
        best = sorted(weights, key=lambda root: (-weights[root], root))[:MAX_KEYWORDS]
        top = weights[best[0]] if best else 1.0
        keywords = tuple((_spelling(spelled[root]), round(weights[root] / top, 2)) for root in best)
        labels.append(_Label(keywords, tuple(_phrased(best, together, found, spelled))))
    return labels


@dataclass(frozen=True, slots=True)
class _Label:
    """The characteristic words of a topic, the heaviest first."""

    keywords: tuple[tuple[str, float], ...]
    names: tuple[str, ...]
    """The same, two words that stand together as one name."""


def _names(words: Counter[str]) -> bool:
    """Return whether a word can name a subject: it is not among the commonest, nor an activity."""
    word = _spelling(words)
    return word_weight(word) >= MIN_TITLE_WEIGHT and not word.endswith("ing")


def _phrased(
    best: Sequence[str],
    together: Counter[tuple[str, str]],
    found: Counter[str],
    spelled: Mapping[str, Counter[str]],
) -> Iterator[str]:
    """Yield the words of a label, two that stand together as one name."""
    used: set[str] = set()
    for root in best:
        if root in used:
            continue
        pairs = [pair for pair in together if root in pair and not used & {*pair} and set(pair) <= set(best)]
        pair = max(pairs, key=lambda pair: (together[pair], pair), default=None)
        if pair and together[pair] > 1 and together[pair] >= PHRASE_SHARE * max(found[each] for each in pair):
            used |= {*pair}
            yield " ".join(_spelling(spelled[each]) for each in pair)
        else:
            used.add(root)
            yield _spelling(spelled[root])


def _text(turn: LearnedTurn) -> str:
    text = turn.compressed or f"{turn.user}\n{turn.assistant}"
    return _MARK.sub(" ", text[:LABELLED_CHARS])


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Yield the roots of the content words of a text, with their spelling."""
    silent = _silent()
    for match in _WORD.findall(text):
        if _CJK_RUN.fullmatch(match):
            yield from ((match[start : start + 2], match[start : start + 2]) for start in range(len(match) - 1))
            continue
        word = match.casefold().replace("\u2019", "'").removesuffix("'s")
        first, _, second = word.partition("'")
        word = second if len(first) < MIN_WORD_CHARS and second else word  # l'heure
        if len(word) >= MIN_WORD_CHARS and not silent & {word, first} and word_weight(word) > 0:
            yield stem(word), word


@cache
def _silent() -> frozenset[str]:
    return stop_words("search") | stop_words("chat")


def _spelling(words: Mapping[str, int]) -> str:
    return min(words, key=lambda word: (-words[word], len(word), word))


def _item(
    gathered: Gathered,
    topic: str,
    cluster: _Cluster,
    label: _Label,
    *,
    before: KnowledgeRow | None,
    weight: float,
) -> NewKnowledge:
    turns = gathered.turns
    sources = [turns[place] for place, _ in cluster.own[:MAX_SOURCES]]
    examples = (one_line(_MARK.sub(" ", turn.tiny or turn.user or turn.assistant)) for turn in sources)
    shown = list(dict.fromkeys(text[:EXAMPLE_CHARS] for text in examples if text))[:EXAMPLES]
    times = [turns[place].at_us for place, _ in cluster.own]
    return NewKnowledge(
        id=topic,
        scope=str(gathered.scope),
        kind="topic",
        state=before.state if before and before.state != "retired" else "proposed",
        title=_title(label, before),
        text="\n".join([", ".join(word for word, _ in label.keywords), *shown]),
        keywords=label.keywords,
        weight=weight,
        confidence=round(math.fsum(near for _, near in cluster.own) / len(cluster.own), 2),
        sources=tuple(sorted(turn.source for turn in sources)),
        maker="local",
        first_seen_us=min(times),
        last_seen_us=max(times),
    )


def _title(label: _Label, before: KnowledgeRow | None) -> str:
    """Return the heaviest words; the previous title while its words are still among them."""
    words = {*label.names, *(word for word, _ in label.keywords)}
    if before and before.title and set(before.title.split(", ")) <= words:
        return before.title
    return ", ".join(label.names[:TITLE_WORDS])
