"""The SQL that every database shares, with `:name` parameters, and the migrations.

A dialect says only how it spells a few types (`TYPES` in its file); everything else here is common to SQLite
and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files

SCHEMA_TABLE = "foveate_schema"

CREATE_SCHEMA_TABLE = f"CREATE TABLE {SCHEMA_TABLE} (version BIGINT NOT NULL)"
READ_VERSION = f"SELECT version FROM {SCHEMA_TABLE}"  # noqa: S608 - a constant
CLEAR_VERSION = f"DELETE FROM {SCHEMA_TABLE}"  # noqa: S608
WRITE_VERSION = f"INSERT INTO {SCHEMA_TABLE} (version) VALUES (:version)"  # noqa: S608

SESSION_COLUMNS = """s.number, s.id, s.title, s.platform, s.channel, s.strategy, s.settings, s.budget_tokens, s.model,
    s.encoding, s.calibration, s.parent, p.id AS parent_id, s.fork_turn, s.fork_position, s.last_turn, s.last_position,
    s.head, s.created_us, s.updated_us"""
SELECT_SESSIONS = f"SELECT {SESSION_COLUMNS} FROM sessions s LEFT JOIN sessions p ON p.number = s.parent"  # noqa: S608
GET_SESSION = f"{SELECT_SESSIONS} WHERE s.id = :id"
GET_SESSION_BY_NUMBER = f"{SELECT_SESSIONS} WHERE s.number = :number"
LIST_SESSIONS = f"""{SELECT_SESSIONS}
    WHERE (:platform IS NULL OR s.platform = :platform) AND (:channel IS NULL OR s.channel = :channel)
    ORDER BY s.updated_us DESC, s.number DESC"""
ADD_SESSION = """INSERT INTO sessions (id, title, platform, channel, strategy, settings, budget_tokens, model, encoding,
    calibration, parent, fork_turn, fork_position, last_turn, last_position, head, created_us, updated_us, settled)
    VALUES (:id, :title, :platform, :channel, :strategy, :settings, :budget_tokens, :model, :encoding,
    :calibration, :parent, :fork_turn, :fork_position, :fork_turn, 0, 'closed', :now_us, :now_us,
    CASE WHEN :fork_turn > 0 THEN :fork_turn - 1 ELSE 0 END)"""
GET_HEAD = "SELECT number, last_turn, last_position, head FROM sessions WHERE id = :id"
MOVE_HEAD = """UPDATE sessions SET last_turn = :last_turn, last_position = :last_position, head = :head,
    updated_us = CASE WHEN last_turn = 0 OR updated_us < :newest_us THEN :newest_us ELSE updated_us END
    WHERE number = :number"""
LIST_CHILDREN = "SELECT id, fork_turn FROM sessions WHERE parent = :number ORDER BY number"

ADD_MESSAGE = """INSERT INTO messages
    (session, turn, position, role, kind, tokens, tool_calls, tool_results, at_us, recorded_us, size, digest, key)
    VALUES (:session, :turn, :position, :role, :kind, :tokens, :tool_calls, :tool_results, :at_us, :now_us,
    :size, :digest, :key)
    RETURNING id"""
ADD_BODY = "INSERT INTO bodies (message, data) VALUES (:message, :data)"
FIND_KEY = "SELECT turn, position FROM messages WHERE session = :session AND key = :key"

# One lineage span: an ancestor's turns from :first to :last, the last one only up to the position at the fork.
_SPAN = """session = :session AND turn BETWEEN :first AND :last AND (turn < :last OR position <= :last_position)"""
READ_MESSAGES = f"""SELECT turn, position, role, kind, tokens, at_us, recorded_us, digest, pruned_us, data
    FROM messages LEFT JOIN bodies ON message = id WHERE {_SPAN} ORDER BY turn, position"""  # noqa: S608
READ_TURNS = f"""SELECT turn, count(*), sum(tokens), sum(tool_calls), min(at_us), max(at_us), sum(size),
    max(coalesce(pruned_us, 0)) > 0 FROM messages WHERE {_SPAN} GROUP BY turn ORDER BY turn"""  # noqa: S608
READ_SIZES = f"""SELECT count(*), coalesce(sum(tokens), 0), coalesce(sum(tool_calls), 0), coalesce(sum(size), 0),
    coalesce(sum(length(data)), 0), min(at_us), max(at_us)
    FROM messages LEFT JOIN bodies ON message = id WHERE {_SPAN}"""  # noqa: S608
READ_OUTLINES = f"""SELECT turn, role, kind, tokens, tool_results, at_us, pruned_us IS NOT NULL
    FROM messages WHERE {_SPAN} ORDER BY turn, position"""  # noqa: S608
READ_KEYS = f"""SELECT key FROM messages WHERE {_SPAN} AND kind <> 'display' ORDER BY turn, position"""  # noqa: S608
SUM_TOKENS = f"SELECT coalesce(sum(tokens), 0) FROM messages WHERE {_SPAN}"  # noqa: S608
COUNT_POSITIONS = f"SELECT coalesce(max(position), 0) FROM messages WHERE {_SPAN}"  # noqa: S608

LIST_PINS = (
    "SELECT number, text, locked, created_us FROM pins WHERE session = :session AND removed_us IS NULL ORDER BY number"
)
ADD_PIN = """INSERT INTO pins (session, number, text, locked, created_us)
    SELECT :session, coalesce(max(number), 0) + 1, :text, :locked, :now_us FROM pins WHERE session = :session
    RETURNING number"""
COPY_PINS = """INSERT INTO pins (session, number, text, locked, created_us)
    SELECT :to, number, text, locked, created_us FROM pins WHERE session = :from AND removed_us IS NULL"""
COPY_GIVEN = (
    """INSERT INTO goals (session, number, data, created_us, updated_us)
    SELECT :to, number, data, created_us, updated_us FROM goals WHERE session = :from""",
    """INSERT INTO documents (session, name, text, updated_us)
    SELECT :to, name, text, updated_us FROM documents WHERE session = :from""",
)
FIND_PIN = """SELECT number, locked, created_us FROM pins
    WHERE session = :session AND text = :text AND removed_us IS NULL ORDER BY number"""
LOCK_PIN = "UPDATE pins SET locked = 1 WHERE session = :session AND number = :number"
GET_PIN = "SELECT locked FROM pins WHERE session = :session AND number = :number AND removed_us IS NULL"
REMOVE_PIN = "UPDATE pins SET removed_us = :now_us WHERE session = :session AND number = :number"

_RAISE_CALIBRATION = "calibration = CASE WHEN :calibration > calibration THEN :calibration ELSE calibration END"
_DERIVED = ("passages", "renditions", "leases", "eras", "keepsakes", "artefacts")
DELETE_SESSION = (
    *(f"DELETE FROM {table} WHERE session = :number" for table in _DERIVED),  # noqa: S608
    "DELETE FROM bodies WHERE message IN (SELECT id FROM messages WHERE session = :number)",
    "DELETE FROM messages WHERE session = :number",
    "DELETE FROM pins WHERE session = :number",
    "DELETE FROM goals WHERE session = :number",
    "DELETE FROM documents WHERE session = :number",
    "UPDATE calls SET session = NULL WHERE session = :number",  # what was spent stays spent
    "DELETE FROM sessions WHERE number = :number",
)
# A turn is old when its last message is; the open turn never is.
_OLD_TURNS = """SELECT turn FROM messages WHERE session = :session AND turn < :last_turn
    GROUP BY turn HAVING max(at_us) < :before_us AND max(coalesce(pruned_us, 0)) = 0"""
IN_OLD_TURN = f"session = :session AND turn IN ({_OLD_TURNS})"
COUNT_OLD = f"""SELECT count(DISTINCT turn), count(*), coalesce(sum(size), 0), coalesce(sum(length(data)), 0), min(turn)
    FROM messages LEFT JOIN bodies ON message = id WHERE session = :session AND turn IN ({_OLD_TURNS})"""  # noqa: S608
PRUNE = (
    f"""DELETE FROM bodies WHERE message IN
    (SELECT id FROM messages WHERE session = :session AND turn IN ({_OLD_TURNS}))""",  # noqa: S608
    f"DELETE FROM renditions WHERE session = :session AND turn IN ({_OLD_TURNS})",  # noqa: S608
    # Eras, plans and boards may hold words of what goes; they are made again.
    "DELETE FROM eras WHERE session = :session",
    "DELETE FROM keepsakes WHERE session = :session",
    "DELETE FROM artefacts WHERE session = :session",
    "INSERT INTO keepsakes (session, name, data) VALUES (:session, 'pruned', :mark)",
    f"UPDATE messages SET pruned_us = :now_us WHERE session = :session AND turn IN ({_OLD_TURNS})",  # noqa: S608
)


COUNT_MESSAGES = f"""SELECT turn, count(*) FROM messages
    WHERE {_SPAN} AND pruned_us IS NULL GROUP BY turn ORDER BY turn"""  # noqa: S608
GET_SETTLED = "SELECT settled FROM sessions WHERE number = :number"
SET_SETTLED = "UPDATE sessions SET settled = :settled WHERE number = :number AND settled < :settled"
LIST_UNSETTLED = "SELECT id FROM sessions WHERE last_turn > settled ORDER BY number"
LIST_LEASED = "SELECT turn FROM leases WHERE session = :session AND until_us > :now_us AND until_us <= :latest_us"
ADD_LEASE = """INSERT INTO leases (session, turn, owner, until_us) VALUES (:session, :turn, :owner, :until_us)
    ON CONFLICT (session, turn) DO UPDATE SET owner = :owner, until_us = :until_us"""
DROP_LEASE = "DELETE FROM leases WHERE session = :session AND turn = :turn"
DROP_LEASES = "DELETE FROM leases WHERE session = :session AND owner = :owner"
ADD_RENDITION = """INSERT INTO renditions (session, turn, messages, maker, version, is_complete, smoothed_tokens,
    compressed_tokens, tiny_tokens, tiny, compressed, smoothed, units, refusals, made_us, due_us, calls)
    VALUES (:session, :turn, :messages, :maker, :version, :is_complete, :smoothed_tokens, :compressed_tokens,
    :tiny_tokens, :tiny, :compressed, :smoothed, :units, :refusals, :now_us, :due_us, :calls)
    ON CONFLICT (session, turn, messages, maker, version) DO NOTHING RETURNING id"""
_MADE = "FROM renditions WHERE session = :session AND turn BETWEEN :first AND :last ORDER BY turn, id"
LIST_MADE = f"SELECT turn, messages {_MADE}"
LIST_SIZES = f"SELECT turn, messages, id, smoothed_tokens, compressed_tokens, tiny_tokens {_MADE}"
LIST_TINIES = f"SELECT turn, messages, tiny, tiny_tokens {_MADE}"
LIST_RENDITIONS = f"""SELECT turn, messages, smoothed_tokens, compressed_tokens, tiny_tokens, tiny, compressed,
    smoothed, units, maker, version, is_complete, made_us {_MADE}"""
ADD_ERA = """INSERT INTO eras (session, level, place, tokens, units, made_us)
    VALUES (:session, :level, :place, :tokens, :units, :now_us)
    ON CONFLICT (session, level, place) DO UPDATE SET tokens = :tokens, units = :units, made_us = :now_us"""
LIST_ERAS = """SELECT place, tokens, units FROM eras
    WHERE session = :session AND level = :level AND place BETWEEN :first AND :last ORDER BY place"""
LIST_ERA_TOKENS = """SELECT place, tokens FROM eras
    WHERE session = :session AND level = :level AND place BETWEEN :first AND :last ORDER BY place"""
LAST_ERA = "SELECT max(place) FROM eras WHERE session = :session AND level = :level AND place <= :last"
KEEP = """INSERT INTO keepsakes (session, name, data) VALUES (:session, :name, :data)
    ON CONFLICT (session, name) DO UPDATE SET data = :data"""
GET_KEPT = "SELECT data FROM keepsakes WHERE session = :session AND name = :name"

_CALL_PARTS = """turn, at_us, provider, model, purpose, input_tokens, output_tokens, cached_tokens, nano_usd,
    is_estimate, latency_us, outcome"""
_CALL_COLUMNS = f"session, {_CALL_PARTS}"
_CALL_VALUES = """(SELECT number FROM sessions WHERE id = :session_id), :turn, :at_us, :provider, :model, :purpose,
    :input_tokens, :output_tokens, :cached_tokens, :nano_usd, :is_estimate, :latency_us, :outcome"""
ADD_CALL = f"INSERT INTO calls ({_CALL_COLUMNS}) VALUES ({_CALL_VALUES}) RETURNING id"  # noqa: S608
SUM_CALLS = "SELECT coalesce(sum(nano_usd), 0) FROM calls WHERE at_us >= :since_us"
RESERVE_CALL = f"""INSERT INTO calls ({_CALL_COLUMNS}) SELECT {_CALL_VALUES}
    WHERE ({SUM_CALLS}) + :nano_usd <= :limit_nano_usd RETURNING id"""
SETTLE_CALL = """UPDATE calls SET model = :model, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cached_tokens = :cached_tokens, nano_usd = :nano_usd, is_estimate = :is_estimate, latency_us = :latency_us,
    outcome = :outcome WHERE id = :id"""
MARK_UNFIT = "UPDATE calls SET outcome = 'unfit' WHERE id = :id"
NEWEST_CALLS = f"""SELECT (SELECT id FROM sessions WHERE number = session), {_CALL_PARTS} FROM calls
    WHERE at_us >= :since_us ORDER BY at_us DESC, id DESC LIMIT :limit"""  # noqa: S608
LIST_COSTS = """SELECT s.id, c.at_us / 86400000000 AS day, c.model, c.purpose, count(*),
    sum(CASE WHEN c.outcome IN ('ok', 'unfit', 'running') THEN 0 ELSE 1 END),
    sum(CASE WHEN c.outcome = 'unfit' THEN 1 ELSE 0 END), sum(c.latency_us), sum(c.input_tokens), sum(c.output_tokens),
    sum(c.cached_tokens), sum(c.nano_usd), max(c.is_estimate)
    FROM calls c LEFT JOIN sessions s ON s.number = c.session
    WHERE c.at_us >= :since_us AND (:session IS NULL OR c.session = :session)
    GROUP BY c.session, s.id, c.at_us / 86400000000, c.model, c.purpose ORDER BY day, s.id, c.model, c.purpose"""


def update_session(columns: frozenset[str]) -> str:
    """The statement that sets these columns; calibration only ever goes up."""
    assigned = (
        _RAISE_CALIBRATION if column == "calibration" else f"{column} = :{column}" for column in sorted(columns)
    )
    return f"UPDATE sessions SET {', '.join(assigned)} WHERE id = :id"  # noqa: S608


def latest_version() -> int:
    return max(number for number, _ in _migration_files())


def migrations(after: int, types: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """Each later version with the statements that lead to it."""
    for number, text in sorted(_migration_files()):
        if number > after:
            lines = (line for line in text.splitlines() if not line.startswith("--"))
            script = "\n".join(lines).format_map(types)
            yield number, [statement for part in script.split(";") if (statement := part.strip())]


def _migration_files() -> Iterator[tuple[int, str]]:
    for entry in files("foveate.store").joinpath("migrations").iterdir():
        if entry.name.endswith(".sql"):
            yield int(entry.name[:4]), entry.read_text("utf-8")
