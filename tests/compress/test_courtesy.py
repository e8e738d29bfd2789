"""Courtesies are found by their phrases, and whatever says more is no courtesy."""

from __future__ import annotations

import re

import pytest

from foveate.compress import courtesy
from foveate.compress.courtesy import is_courtesy, plain, without_courtesy


@pytest.mark.parametrize(
    "text",
    [
        "Thanks so much for the quick reply yesterday, I really appreciate it.",
        "Hello there, I hope you are having a lovely week!",
        "Please let me know if there is anything else that I can help you with.",
        "Don't hesitate to contact us if you have any further questions.",
        "Have a great weekend!",
        "Best wishes, Annette",
        "I'd be happy to help you with that.",
        "You're welcome!",
        "I hope that all makes sense.",
        "Thanks for jumping in on such short notice, you're a star!",
        "If you run into any problems or if something isn't clear, just give me a shout.",
        "I know that's a lot to ask.",
        "We sincerely apologise for any inconvenience this may have caused.",
        "Once again, please accept our apologies, and thank you for your patience.",
        "All the best from rainy Bergen, Solveig",
        "I trust this finds you in good health.",
        "We've all been there!",
        "Is there anything else I can do for you today?",
    ],
)
def test_a_courtesy_is_found(text: str) -> None:
    assert is_courtesy(text)
    assert without_courtesy(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Let me know if it works.",
        "Feel free to delete the branch.",
        "Thanks for the report about the invoice.",
        "Sorry, no.",
        "I hope the deploy worked.",
        "Have a good backup plan.",
        "Welcome page is broken.",
        "Please reach out to Ana about the contract.",
        "Have a look at the logs.",
        "Sorry, the update is late.",
        "I'm glad you and your wife had such a great time!",
        "We all find our own way to escape and feel free!",
        "I am thankful for their support.",
        "If you change your mind and would like a refund, please let me know.",
        "Please try to find it, and once you have it, let me know.",
        "I want to reduce the leak, but I'm not sure where to start.",
        "Don't worry about the warnings.",
        "You are welcome to use it.",
        "I hope you can fix it.",
        "I could, of all people, have asked.",
        "I keep up with my new health routine, but it's tough.",
        "It's hard, but it's possible.",
        "We help each other learn new tricks and have a great time.",
        "Is there anything else I should know?",
        "Have a great trip to Seattle!",
        "Just let me know what you're looking for!",
        "Don't thank me.",
        "He said thank you.",
        "Give me a call in the morning.",
        "Get back to me with the details before lunch.",
        "Reach out to my sister.",
        "No pressure in the line.",
        "If you find the right person, let me know.",
        "If you need more time, let me know.",
        "Let me know if anything changes.",
        "Let me know if there's anything else I need to check on.",
        "Let me know as soon as you can.",
        "Feel free to call my wife.",
        "Feel free to write the report.",
        "Thanks, I will.",
        "Will do, thanks.",
        "Thanks to your help, the build is green.",
        "Thanks, but I'd rather wait.",
        "Sorry, I was late.",
        "Sorry, Tuesday.",
        "Sorry that the flight was late.",
        "Sorry we are closed on Mondays.",
        "I'm sorry to hear about your dad.",
        "I'm sorry to hear that you're dealing with health issues, it can be really tough.",
        "I hope you find the problem before dinner.",
        "I hope you can help me with the report.",
        "I hope so.",
        "I was hoping for more.",
        "Hope is all we have.",
        "I'm no expert.",
        "I'm not sure if this is the right way, or if I'm missing anything.",
        "I just can't seem to get my head around it.",
        "You are the best person to ask.",
        "See you in the morning.",
        "Looking forward to your report.",
        "Have a good look at it.",
        "That's it.",
        "In the morning or in the evening.",
        "This could be in the morning, during lunch breaks, or in the evening.",
        "Short turns are often greetings, thanks or questions.",
        "A letter of authorization, explaining your wishes and naming the executor.",
        "Remember to pause, reflect, and take care of yourself.",
        "Let's get coffee to catch up and thank you in person.",
        "To Erica, thank you for your patience and understanding with the estate.",
        "I want to apologize to my brother.",
        "I'd appreciate speaking with someone else.",
        "I would appreciate more time.",
        "Appreciate what you've got.",
        "I'm glad your brother is okay.",
        "That sounds fun, how was it?",
        "Yeah, we were fine, thanks.",
        "Never heard of it, but it sounds interesting.",
        "Don't forget, you got this!",
        "Take care, the floor is wet.",
        "Keep up the good work, and you will reach your goal.",
        "Give it a go, even if it's just a little thing.",
        "It is open. If you have questions about these steps, feel free to ask!",
        "Whenever you need help, just let me know about it.",
        "Is there anything more I could do?",
        "No problem with the second unit.",
        "My dude, this broke.",
        "Actually, make it ten.",
        "Let me know if you can help me with this.",
        "Let me know if there are any problems.",
        "If it is clear, let me know.",
        "I hope everything is there today.",
        "It looks good.",
        "It must be perfect.",
        "Absolutely.",
        "Have a rest.",
        "Many.",
        "Any time you need help, don't hesitate.",
        "Bitte melden Sie sich heute.",
        "Si tiene alguna pregunta sobre el tren, no dude en escribirnos.",
        "Ich wünsche eine Antwort.",
        "Ich helfe dir morgen.",
        "Danke, aber nein.",
        "Entschuldigung, wir haben heute zu.",
        "Bitte die Mail von gestern noch einmal.",
        "Je souhaite une réponse.",
        "Merci, mais non.",
        "Espero que tenga la respuesta el fin de semana.",
        "Gracias, pero no.",
    ],
)
def test_a_statement_in_polite_words_stays(text: str) -> None:
    assert not is_courtesy(text)
    assert without_courtesy(text) == text


def test_the_consent_of_a_user_stays() -> None:
    assert is_courtesy("Sounds good!")
    assert not is_courtesy("Sounds good!", is_answer=False)
    assert without_courtesy("Great, merge it.", is_answer=False) == "Great, merge it."
    for text in ("Of course.", "Certainly!", "Alright, do it.", "Will do, thank you.", "Yes, please."):
        assert without_courtesy(text, is_answer=False).rstrip(".") in text
        assert without_courtesy(text, is_answer=False)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Hi Anna, the build is red.", "The build is red."),
        ("The build is red, thanks again for your help!", "The build is red."),
        ("I'm so sorry, I cannot open the file.", "I cannot open the file."),
        ("I hope you don't mind me asking, but the key is gone.", "The key is gone."),
        ("Kind regards, Petra Lindqvist", "Petra Lindqvist"),
        ("Oh man, sorry to hear that, Melanie.", "Oh man, Melanie."),
        ("Anyway, a lot has changed.", "A lot has changed."),
        ("I would be so, so grateful for a copy of the plan.", "I would be so, so grateful for a copy of the plan."),
    ],
)
def test_polite_parts_of_a_sentence_go(text: str, kept: str) -> None:
    assert without_courtesy(text) == kept


def test_a_users_approval_stays() -> None:
    for text in ("That's a good idea.", "That would be great.", "Okay, thanks."):
        assert without_courtesy(text, is_answer=False).rstrip(".") in text
        assert without_courtesy(text, is_answer=False)


def test_names_of_code_need_no_marks() -> None:
    assert plain("run `make_all()` from `bin/run.sh` on `main`") == "run make_all() from bin/run.sh on `main`"


def test_many_short_clauses_are_compared_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def is_phrase(clause: str) -> bool:
        compared.append(clause)
        return set(clause) <= set("ha, ") and clause.count(",") < 4

    monkeypatch.setattr(courtesy, "is_phrase", is_phrase)
    assert not is_courtesy("haha, " * 25 + "zebra", is_answer=False)
    assert len(compared) <= 26 * 26


def test_a_sentence_of_many_parts_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    class Counted:
        def search(self, text: str) -> re.Match[str] | None:
            searched.append(text)
            return None

    monkeypatch.setattr(courtesy, "_SUBORDINATE", Counted())
    text = ", ".join(f"we do it {word}" for word in ["here", "there"] * 100)
    assert without_courtesy(text) == text
    assert len(searched) == 200
