"""Filler goes from the inside of a sentence; a hedge that changes the claim stays."""

from __future__ import annotations

import pytest

from foveate.compress.filler import without_filler, without_smileys


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("I was just wondering if maybe somebody could come.", "Could somebody come."),
        ("It would be great if you could perhaps send it.", "Please send it."),
        ("It is late, so I would be grateful if you could help.", "It is late, so please help."),
        ("Could you please possibly check it?", "Could you check it?"),
        ("I wanted to let you know that the shop is closed.", "The shop is closed."),
        ("It fails, which, to be honest, I doubt.", "It fails, which I doubt."),
        ("What I mean is that the port is closed.", "The port is closed."),
        ("Please, please don't close it, haha.", "Please don't close it."),
        ("It is nothing urgent, really.", "It is nothing urgent."),
        ("As I mentioned earlier, the door is open.", "The door is open."),
        ("It's super important, and I'm totally fine.", "It's important, and I'm fine."),
        ("Please look into it at your earliest convenience.", "Please look into it soon."),
    ],
)
def test_filler_goes(text: str, kept: str) -> None:
    assert without_filler(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "I think it is closed, and maybe it was never open.",
        "If I remember correctly, it was about ten.",
        "I don't really know, and it is not basically wrong.",
        "We used to play Super Mario.",
        "You know the answer, and I mean the other one.",
        "I wonder whether you could.",
        "I wanted to let you know that it is open and that it stays so.",
        "It would be great if it rained.",
        "Generally speaking, the tests pass.",
        "As I told you on Tuesday, the port is closed.",
        "Between you and me, he is leaving.",
        "If you know, tell me, and as far as I know, it is open.",
        "He translated it literally, and it is basically done.",
        "Use super glue, and call super before the body runs.",
        "I don't think it's totally safe, and I don't totally agree.",
        "It is not a really good idea.",
        "Do we really want that?",
        "It's really a fault of the server, and it's really not mine.",
        "He is sick, you know?",
        "Could you please not delete it?",
        "Could you perhaps be wrong?",
        "Can you just read it?",
        "It would be nice if someone could fix the light.",
        "I was wondering if I could afford it.",
        "Please note that number down.",
        "I want to add that comment to the file.",
        "I want him to be honest the next time.",
        "At the moment of impact, the bag opens.",
        "The lol file and the haha command stay.",
        "To be honest was the only complaint.",
        "Uh oh, it broke.",
        "The gap is ten um, and the um package stays.",
        "At the end of the day, we lock the doors.",
        "Please put the cards in order to the left.",
        "The verb is in the near future tense.",
        "I'll be honest, one of the reasons was the bar.",
    ],
)
def test_a_hedge_or_a_claim_stays(text: str) -> None:
    assert without_filler(text) == text


def test_a_smiley_goes_and_code_stays() -> None:
    assert without_smileys("Done :) Next one") == "Done. Next one"
    assert without_smileys("It works! ;-) and so on") == "It works! and so on"
    assert without_smileys("a dict {1:2} and f(x :D)") == "a dict {1:2} and f(x :D)"
