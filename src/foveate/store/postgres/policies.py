"""Row-level security: a transaction for a tenant sees and writes only this tenant's rows.

A second line of defence: statements filter by tenant in any case. A transaction without a tenant (the owner's, a
worker's) sees all rows. Superusers and roles with BYPASSRLS are not restricted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

TENANT = "foveate.tenant"
"""The setting that holds the tenant of a transaction; empty: all tenants."""
SET_TENANT = f"SELECT set_config('{TENANT}', :tenant, true)"
UNSCOPED = frozenset({"agent_trees", "foveate_schema", "workers"})
"""Tables without tenant data: limits of agents, the schema version, running workers."""
UNFORCED = frozenset({"passage_words"})
"""Tables whose policy does not restrict their owner. A policy is checked before any operator that is not leakproof,
such as `@@`, so the full-text index could not be used. The statements that read it contain the condition themselves."""
# Not `to_regclass`, which may return a cached result from before the wait for a lock.
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
"""Conditions by the column that identifies the tenant; the tables they query have their own policies."""


def condition(table: str, columns: Iterable[str]) -> str:
    """Return the condition, in parentheses, that a row belongs to the transaction's tenant."""
    names = set(columns)
    column = next(name for name in _OWNERS if name in names)
    owned = _OWNERS[column].format(table=table)
    return f"({owned})" if column == "tenant" else f"({_CURRENT} = '' OR {owned})"


def policy(table: str, columns: Iterable[str]) -> Iterator[str]:
    """Yield the statements that restrict a table; none for a table of `UNSCOPED`."""
    if table in UNSCOPED:
        return
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    if table not in UNFORCED:
        yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"  # includes the role that owns the table
    yield f"CREATE POLICY tenant ON {table} USING {condition(table, columns)}"
