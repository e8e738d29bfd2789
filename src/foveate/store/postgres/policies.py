"""Row-level security: a transaction for a tenant sees and writes the rows of this tenant alone.

It is a second lock: statements name the tenant in any case. A transaction without a tenant (the owner's, a worker's)
sees all rows. Superusers and roles with BYPASSRLS are not restricted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

TENANT = "foveate.tenant"
"""The setting that has the tenant of a transaction; empty: all of them."""
SET_TENANT = f"SELECT set_config('{TENANT}', :tenant, true)"
UNSCOPED = frozenset({"agent_trees", "foveate_schema", "workers"})
"""Tables without anything of a tenant: limits of agents, the schema's version, running workers."""
UNFORCED = frozenset({"passage_words"})
"""Tables whose policy does not restrict their owner. A policy is checked before any operator that is not leakproof, and
`@@` is none: the full-text index could not be used. The statements that read it have the condition themselves."""
# Not `to_regclass`, which may answer from a cache what was true before a lock was waited for.
HAS_TABLE = "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = '{table}' AND pg_table_is_visible(oid))"
COLUMNS = """SELECT column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = $1"""

_CURRENT = f"(SELECT coalesce(current_setting('{TENANT}', true), ''))"
_OWNERS = {
    "tenant": f"{_CURRENT} IN ('', tenant)",
    "session": "EXISTS (SELECT 1 FROM sessions o WHERE o.number = {table}.session)",
    "message": "EXISTS (SELECT 1 FROM messages o WHERE o.id = {table}.message)",
    "run": "EXISTS (SELECT 1 FROM learn_runs o WHERE o.id = {table}.run)",
    "agent": "EXISTS (SELECT 1 FROM agents o WHERE o.id = {table}.agent)",
}
"""How a row belongs to a tenant, by the column that tells; the tables asked have policies of their own."""


def condition(table: str, columns: Iterable[str]) -> str:
    """Whether a row belongs to the tenant of the transaction, in parentheses."""
    names = set(columns)
    column = next(name for name in _OWNERS if name in names)
    owned = _OWNERS[column].format(table=table)
    return f"({owned})" if column == "tenant" else f"({_CURRENT} = '' OR {owned})"


def policy(table: str, columns: Iterable[str]) -> Iterator[str]:
    """The statements that restrict a table; none for a table of `UNSCOPED`."""
    if table in UNSCOPED:
        return
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    if table not in UNFORCED:
        yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"  # for the role that owns the table too
    yield f"CREATE POLICY tenant ON {table} USING {condition(table, columns)}"
