"""Whether a prompt needs anything recalled, by how it is put."""

# ruff: noqa: RUF001 (punctuation of many languages)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.recall.questions import (
    SCRIPTS,
    SPACED,
    Breadth,
    Need,
    asks_for_answers,
    breadth_of,
    load,
    need_of,
    prompt_sentences,
)

ASKS = (
    "When did Caroline go to the support group?",
    "What is the port of the storage service?",
    "Can you remind me which database we chose?",
    "What did we decide about the invoice numbers last time?",
    "Summarize what I told you about my garden so far.",
    "which branch has the fix for getUserById",
    "Can you give me a summary of how I handled the database in our talks?",
    "Which US city did Maria visit in May?",
    "I'm about to start drafting my essay. What tools or software would you suggest I use?",
)
SMALL_TALK = (
    "",
    " \n ",
    "ok",
    "Thanks!",
    "continue",
    "go on please",
    "Sounds great!",
    "How are you?",
    "Hey! Good to see you! How have you been?",
    "What's up?",
    "Yes, do it.",
)
IN_DOUBT = (
    "What do you think of the garden in winter?",
    "Rename src/auth/jwt.py",
    "Have you noticed any improvements?",
    "The tests pass now. I also renamed the storage module. Why is the build so slow?",
)

ASKS_BY_LANGUAGE = {
    "de": (
        "Welche Datenbank haben wir gewählt?",
        "welcher Port gehört dem Speicherdienst",
        "Wann war das Treffen in Kiel?",
    ),
    "fr": (
        "Quelle base de données avons-nous choisie ?",
        "quand a eu lieu la réunion de Lyon",
        "Où est la clé du hangar ?",
    ),
    "es": ("¿Qué base de datos elegimos", "¿Cuándo fue la reunión de Sevilla?", "dónde está la llave del cobertizo"),
    "it": ("Quale database abbiamo scelto?", "dov'è la chiave del capanno", "Quando c'è stata la riunione di Milano?"),
    "pt": ("Qual banco de dados escolhemos?", "onde fica a chave do galpão", "Quando foi a reunião em Lisboa?"),
    "nl": (
        "Welke database hebben we gekozen?",
        "waar hangt de sleutel van het botenhuis",
        "Wanneer was de vergadering in Gent?",
    ),
    "ru": ("Какую базу данных мы выбрали?", "где висит ключ от сарая", "Когда была встреча в Казани?"),
    "zh": ("我们选择了哪个数据库？", "船库的钥匙挂在哪里", "存储服务的端口是多少？"),
    "ja": ("どのデータベースを選びましたか？", "倉庫の鍵はどこに掛けてありますか", "会議はいつでしたか？"),
    "ar": ("ما هو منفذ خدمة التخزين الجديدة؟",),
}
SMALL_TALK_BY_LANGUAGE = {
    "de": ("Danke!", "Wie geht es dir?", "Mach bitte weiter.", "Alles klar, super!"),
    "fr": ("Merci beaucoup !", "Comment ça va ?", "D'accord, continue."),
    "es": ("¡Muchas gracias!", "¿Cómo estás?", "Vale, sigue."),
    "it": ("Grazie mille!", "Come stai?", "Ok, continua."),
    "pt": ("Muito obrigado!", "Tudo bem?", "Ok, continue."),
    "nl": ("Dank je!", "Hoe gaat het?", "Ga verder."),
    "ru": ("Спасибо!", "Как дела?", "Хорошо, продолжай."),
    "zh": ("谢谢！", "你好吗？", "继续"),
    "ja": ("ありがとうございます！", "お元気ですか？", "続けてください"),
}
WHOLE_BY_LANGUAGE = {
    "en": ("Can you summarize how my garden plans developed?", "Compare both plans for the harbour."),
    "de": ("Fasse zusammen, was wir über den Hafen besprochen haben.",),
    "fr": ("Peux-tu faire un résumé de nos projets ?",),
    "es": ("¿Puedes darme un resumen de nuestros planes?",),
    "it": ("Puoi farmi un riassunto dei nostri piani?",),
    "pt": ("Pode fazer um resumo dos nossos planos?",),
    "nl": ("Kun je een samenvatting van onze plannen geven?",),
    "ru": ("Подытожь наши планы на лето.",),
    "zh": ("总结一下我们的计划",),
    "ja": ("これまでの計画を要約してください",),
}
ANSWERS_BY_LANGUAGE = {
    "en": "How did you recommend I structure my mornings?",
    "de": "Was hast du mir für den Mast empfohlen?",
    "fr": "Quelle peinture as-tu conseillé ?",
    "es": "¿Qué pintura me recomendaste?",
    "it": "Quale vernice mi hai consigliato?",
    "pt": "Que tinta você recomendou?",
    "nl": "Welke verf heb je me aangeraden?",
    "ru": "Какую краску ты посоветовал?",
    "zh": "你推荐过哪种油漆？",
    "ja": "どの塗料を勧めてくれましたか？",
}
ORDER_BY_LANGUAGE = {
    "en": (
        "In what order did I bring up my projects?",
        "Give me a timeline of the release.",
        "List all mentions of Rob.",
    ),
    "de": ("In welcher Reihenfolge haben wir die Themen besprochen?",),
    "fr": ("Dans quel ordre ai-je parlé de mes projets ?",),
    "es": ("¿En qué orden hablé de mis proyectos?",),
    "it": ("In che ordine ho parlato dei miei progetti?",),
    "pt": ("Em que ordem falei dos meus projetos?",),
    "nl": ("In welke volgorde noemde ik mijn projecten?",),
    "ru": ("В каком порядке я рассказывал о проектах?",),
    "zh": ("请按时间顺序列出我提到的事情",),
    "ja": ("どの順番でプロジェクトの話をしましたか？",),
}
POINTS = (
    "",
    "On which hook hangs the spare key?",
    "Rename it in order to save time.",
    "I wrote a summary yesterday.",
    "When is the deadline in the timeline?",
)


def by_language(prompts: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(language, prompt) for language, own in prompts.items() for prompt in own]


@pytest.mark.parametrize("prompt", ANSWERS_BY_LANGUAGE.values(), ids=ANSWERS_BY_LANGUAGE)
def test_a_question_about_what_the_assistant_said_is_told_by_its_words(prompt: str) -> None:
    assert asks_for_answers(prompt)
    assert need_of(prompt) is Need.SURE


@pytest.mark.parametrize("prompt", [*ASKS, *SMALL_TALK, *IN_DOUBT])
def test_no_other_prompt_asks_for_what_the_assistant_said(prompt: str) -> None:
    assert not asks_for_answers(prompt)


@pytest.mark.parametrize("prompt", ASKS)
def test_what_asks_for_something_needs_recall(prompt: str) -> None:
    assert need_of(prompt) is Need.SURE


@pytest.mark.parametrize("prompt", SMALL_TALK)
def test_small_talk_and_nods_need_none(prompt: str) -> None:
    assert need_of(prompt) is Need.NONE


@pytest.mark.parametrize(("language", "prompt"), by_language(ASKS_BY_LANGUAGE))
def test_questions_in_other_languages_need_recall_with_and_without_a_mark(language: str, prompt: str) -> None:
    assert need_of(prompt) is Need.SURE


@pytest.mark.parametrize(("language", "prompt"), by_language(SMALL_TALK_BY_LANGUAGE))
def test_small_talk_in_other_languages_needs_none(language: str, prompt: str) -> None:
    assert need_of(prompt) is Need.NONE


def test_summaries_and_comparisons_ask_about_the_whole_conversation_in_every_language() -> None:
    assert {prompt: breadth_of(prompt) for _, prompt in by_language(WHOLE_BY_LANGUAGE)} == {
        prompt: Breadth.WHOLE for _, prompt in by_language(WHOLE_BY_LANGUAGE)
    }


def test_orders_of_events_and_all_mentions_are_recognised_in_every_language() -> None:
    assert {prompt: breadth_of(prompt) for _, prompt in by_language(ORDER_BY_LANGUAGE)} == {
        prompt: Breadth.ORDER for _, prompt in by_language(ORDER_BY_LANGUAGE)
    }


@pytest.mark.parametrize("prompt", POINTS)
def test_other_prompts_ask_for_a_point(prompt: str) -> None:
    assert breadth_of(prompt) is Breadth.POINT


@pytest.mark.parametrize("language", [*SPACED, *(name for name, _ in SCRIPTS)])
def test_every_language_has_its_words(language: str) -> None:
    found = load(language)
    assert found.small
    for pattern in (found.asks, found.tells, found.memory, found.you, found.order, found.whole):
        assert not pattern.search("")


@pytest.mark.parametrize("prompt", IN_DOUBT)
def test_what_may_ask_for_the_past_is_left_to_what_is_found(prompt: str) -> None:
    assert need_of(prompt) is Need.PERHAPS


def test_of_a_long_prompt_the_end_is_what_asks() -> None:
    assert need_of("Here is a log. " * 10_000 + "When did the storage service fail?") is Need.SURE


@given(st.text(max_size=400))
def test_any_prompt_is_judged(prompt: str) -> None:
    assert need_of(prompt) in Need
    assert breadth_of(prompt) in Breadth


def test_the_sentences_of_a_prompt_keep_their_marks() -> None:
    assert prompt_sentences("So? Yes!\nそう。はい") == ["So?", "Yes!", "そう。", "はい"]
