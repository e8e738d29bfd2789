"""Old public names: they work for one release, with a warning that gives the new one."""

from importlib import import_module

import pytest

OLD_NAMES = {
    "foveate:Recorded": "foveate:RecordedTurn",
    "foveate.compress.exchange:Exchange": "foveate.compress.exchange:ToolExchange",
    "foveate.compress.tools:Exchange": "foveate.compress.exchange:ToolExchange",
    "foveate.session.topics:Topics": "foveate.session.topics:SessionTopics",
    "foveate.sync:Topics": "foveate.sync:SessionTopics",
    "foveate.session.values:TurnPage": "foveate.session.values:TextPage",
    "foveate.strategy:Wanted": "foveate.plan:ArtefactSpec",
}


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_a_renamed_class_is_found_by_its_old_name(old: str, new: str) -> None:
    module, _, name = old.partition(":")
    home, _, now = new.partition(":")
    with pytest.warns(DeprecationWarning, match=now):
        assert getattr(import_module(module), name) is getattr(import_module(home), now)
