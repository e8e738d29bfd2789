"""T: what was asked and what came of it, in whole phrases."""

from __future__ import annotations

import pytest

from foveate.compress.local import LocalCompressor
from foveate.tokens import count_tokens
from foveate.turn import Message, Text


def tiny(prompt: str, answer: str) -> str:
    messages = [Message("user", (Text(prompt),)), Message("assistant", (Text(answer),))]
    return LocalCompressor().compress(1, messages, count_tokens).tiny


def test_an_answer_that_begins_with_the_result_keeps_it() -> None:
    line = tiny(
        "cancel my subscription for the coffee but keep the account, there's credit on it",
        "The subscription is cancelled, and the account with its 18.20 is still there. The shop refuses to cancel in "
        "the last five days before a delivery, so I first skipped the one on 22 May; then it went through. Nothing "
        "more will be sent or charged. The credit expires on 31 December. Pity, it was a good one.",
    )
    assert "The subscription is cancelled" in line


def test_an_opening_is_not_what_came_of_it() -> None:
    line = tiny(
        "Which of our hosts still run the old agent? There are nineteen of them in the rack list.",
        "Let me know if you have any questions! Four hosts still run it: heron-2, heron-5, egret-1 and egret-7. The "
        "others were updated on 12 March. I have not restarted anything.",
    )
    assert "Let me know" not in line
    assert "Four hosts still run it" in line


@pytest.mark.parametrize(
    ("prompt", "whole"),
    [
        ("The disk of wren-3 is at 94 %, please look. You may delete anything under /var/tmp.", "under /var/tmp"),
        ("Tidy up the reports, thanks. Don't touch those of the fourth quarter, they are audited.", "fourth quarter"),
    ],
)
def test_what_limits_an_order_stays_with_it(prompt: str, whole: str) -> None:
    line = tiny(prompt, "Done: three files of 1.2 GB are gone, the disk is at 61 % now. Nothing else was changed.")
    assert whole in line or not any(word in line for word in ("delete anything", "touch"))


def test_a_short_turn_says_what_came_of_it() -> None:
    line = tiny(
        "Is the tablet at the gate broken or is it just slow today? I tapped three times and nothing came.",
        "It's slow. It shares its line with the backup that began at noon; that should be over by 15:00.",
    )
    asked, _, answered = line.partition(" [assistant] ")
    assert "Is the tablet at the gate broken" in asked
    assert "It's slow" in answered


def test_what_came_of_it_is_not_the_courtesy_before() -> None:
    line = tiny(
        "Hello again, it's me, sorry for writing so late. The letter for the museum has 640 words and they want 400 at "
        "most. Could you shorten it, but keep the paragraph on the mosaic?",
        "Hello again! No worries at all, it's never too late, and congratulations on getting this far. I've shortened "
        "the letter to 388 words. The mosaic now comes second. I really hope you get it, fingers crossed!",
    )
    assert "shortened the letter to 388 words" in line
    assert "No worries" not in line


def test_a_condition_behind_a_colon_does_not_keep_the_statement_before_it_out() -> None:
    line = tiny(
        "The pump of the second tank switches off after two minutes, whatever I set. Why?",
        "The float is stuck in its lower position: if the water does not rise within two minutes, the controller stops "
        "the pump, and it only tries again when somebody presses the green button or when the next full hour begins.",
    )
    assert "[assistant] The float is stuck in its lower position" in line
