"""What two prompts begin with alike is counted, and never as more than either has."""

from hypothesis import given
from hypothesis import strategies as st

from foveate.context.context import Segment
from foveate.context.prefix import matching_tokens
from foveate.tokens import O200K, count_tokens


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_a_shared_prefix_is_never_counted_as_more_than_either_prompt(shared: str, left: str, right: str) -> None:
    old, new = shared + left, shared + right
    before, after = (Segment("history", count_tokens(text), True, 1, 1, "R", text=text) for text in (old, new))
    matched = matching_tokens([before], [after], O200K)
    assert 0 <= matched <= min(before.tokens, after.tokens)
    assert matching_tokens([before], [before], O200K) == before.tokens


def test_what_stands_natively_does_not_match_what_stands_as_text() -> None:
    text = Segment("history", 2, True, 1, 1, "R", text="Good day")
    native = Segment("history", 2, True, 1, 1, "R", is_native=True, text="Good day")
    assert matching_tokens([text], [native], O200K) == 0
