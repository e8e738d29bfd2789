"""How well readers answer questions from a context: any assistant, or a person, answers from what a model would see.

    python bench/answers.py --reader FOLDER --data locomo-dev --budget 4000 --questions 100
    python bench/answers.py --judge-sheet FOLDER answers-*.jsonl
    python bench/answers.py --score FOLDER verdicts-*.jsonl --write

Needs ../shared/data for the first step. Each conversation is played at the session's own budget with the default
settings, and each question is asked at its end, in a copy of the store. `FOLDER/README.md` tells readers what to do,
`FOLDER/judge/README.md` tells judges. FOLDER must be outside of the repository: the data may not be redistributed.

Conditions: `live` is the default context; `history` is the same without recall; `+tools` adds the history tools;
`newest` is the end of the transcript that fills the budget; `whole` is the whole transcript.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from answers_folder import CONDITIONS, WHOLE_SETS, write_folder
from answers_score import add_later_steps, check_files, load_saved, load_verdicts, render, save, write_sheets
from measured_block import write_block
from retention import SETS, SHARED


def main() -> None:
    options = parse_options()
    if options.reader:
        write_items(options)
    elif options.judge_sheet:
        folder, *files = map(Path, options.judge_sheet)
        sheets = write_sheets(folder, files)
        print(f"{len(sheets)} sheets in {folder / 'judge'}")
    else:
        folder, *files = map(Path, options.score)
        result = load_verdicts(folder, files)
        print("\n".join(render([result])))
        if options.write:
            save(result)
            write_block("bench/answers.py", "\n".join(render(load_saved())))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--reader", type=Path, metavar="FOLDER", help="write items for readers into a new folder")
    add_later_steps(step)
    parser.add_argument("--data", default=SETS[0], choices=SETS)
    parser.add_argument("--budget", type=int, default=4_000, metavar="TOKENS")
    parser.add_argument("--questions", type=int, default=100, help="of all conversations together")
    parser.add_argument("--conditions", nargs="*", choices=CONDITIONS, help="default: all that the data allows")
    parser.add_argument("--write", action="store_true", help="save the verdicts in bench/data/answers and the tables")
    options = parser.parse_args()
    check_files(parser, options)
    return options


def write_items(options: argparse.Namespace) -> None:
    if not SHARED.is_dir():
        sys.exit("the questions in ../shared/data/qa are not here")
    allowed = [each for each in CONDITIONS if each != "whole" or options.data in WHOLE_SETS]
    conditions = options.conditions or allowed
    if not set(conditions) <= set(allowed):
        sys.exit(f"the conversations of {options.data} are too long for the condition 'whole'")
    write_folder(
        options.reader,
        json.loads((SHARED / "data" / "qa" / f"{options.data}.json").read_text()),
        data=options.data,
        budget_tokens=options.budget,
        questions=options.questions,
        conditions=conditions,
    )
    print(f"written: {options.reader}; readers begin with {options.reader / 'README.md'}")


if __name__ == "__main__":
    main()
