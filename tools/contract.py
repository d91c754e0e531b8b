#!/usr/bin/env python3
"""Makes from contract/ what each face needs: C++, Python, the page's types, JSON schemas, documents.

    tools/contract.py --check             are the committed files those of contract/? Exit status 1: no
    tools/contract.py --write             writes them
    tools/contract.py --build DIRECTORY   besides: the C++ and Python of the build folder
    tools/contract.py --strays            public names that are spelled outside contract/; exit status 1: there are some

contract_language.py describes the files of contract/."""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys

from contract_cpp import (
    command_header_text,
    header_text,
    json_header_text,
    json_members_text,
    members_text,
    names_text,
    served_header_text,
    words_text,
)
from contract_documents import documents_text
from contract_language import Contract, ContractError, distinct_names, read
from contract_options import commands_text, fields_text, jobs_text, questions_text
from contract_python import python_text
from contract_schema import common_schema, openapi, question_schema, text_of
from contract_settings import keys_text, plain_text, with_table
from contract_settings import names_text as setting_names_text
from contract_statistics import statistics_header
from contract_tables import python_columns, served_text, tables_text
from contract_tools import tools_text
from contract_web import web_text

ROOT = pathlib.Path(__file__).resolve().parents[1]
_OPENAPI = "src/face/server/openapi.json"
_SETTINGS = "docs/compatibility.md"


def committed(contract: Contract) -> dict[str, str]:
    """The text of each file that people read, by its path in the project."""
    files = {
        "web/src/answers.ts": web_text(contract),
        "docs/json/answers.md": documents_text(contract),
        "docs/json/common.schema.json": text_of(common_schema(contract)) + "\n",
    }
    for question in contract.questions:
        files[f"docs/json/{question.verb}.schema.json"] = text_of(question_schema(contract, question)) + "\n"
    api = json.loads((ROOT / _OPENAPI).read_text(encoding="utf-8"))
    settings = with_table(contract.settings, (ROOT / _SETTINGS).read_text(encoding="utf-8"))
    return files | {_OPENAPI: text_of(openapi(contract, api)) + "\n", _SETTINGS: settings}


def built(contract: Contract) -> dict[str, str]:
    """The same of C++ and Python, by their path in the build folder."""
    return {
        "sonde/answers.h": header_text(contract),
        "sonde/questions.h": questions_text(contract.commands),
        "sonde/known_statistics.h": statistics_header(contract),
        "python/sonde/answer_types.py": python_text(contract),
        "python/sonde/dump/column_types.py": python_columns(contract),
        "python/sonde/agents/tool_table.py": tools_text(contract),
        "contract/command_answers.h": command_header_text(contract),
        "contract/members.h": members_text(contract),
        "contract/names.h": names_text(contract),
        "contract/words.cpp": words_text(contract),
        "contract/json_writers.h": json_header_text(contract, "writers"),
        "contract/json_readers.h": json_header_text(contract, "readers"),
        "contract/json_members.cpp": json_members_text(contract),
        "contract/commands.h": commands_text(contract.commands, contract.everywhere),
        "contract/jobs.h": jobs_text(contract.commands),
        "contract/settings.h": keys_text(contract.settings),
        "contract/setting_keys.h": setting_names_text(contract.settings),
        "contract/plain_settings.h": plain_text(contract.settings),
        "contract/question_fields.h": fields_text(contract.commands),
        "contract/tables.h": tables_text(contract),
        "contract/served_answers.h": served_header_text(contract),
        "contract/served_rows.h": served_text(contract),
    }


def different(files: dict[str, str], directory: pathlib.Path) -> list[str]:
    return [
        name
        for name, text in files.items()
        if not (directory / name).exists() or (directory / name).read_text(encoding="utf-8") != text
    ]


def write(files: dict[str, str], directory: pathlib.Path) -> None:
    """Files that are right keep their time, so that nothing is compiled again."""
    for name in different(files, directory):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(files[name], encoding="utf-8")


_STRAY_FOLDERS = ("src", "cli", "adapters", "python", "web/src")


def strays(contract: Contract) -> list[str]:
    """`file:line: name` of each literal that spells a name of contract/ and has an underscore, outside what is made."""
    pattern = re.compile(r'"({})"'.format("|".join(distinct_names(contract))))
    made = {ROOT / name for name in committed(contract)}
    found = []
    for folder in _STRAY_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".py", ".ts", ".tsx") or path in made:
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if "ctypes.c_" not in line:  # fields of a C struct: a test compares them with its header
                    found += [f"{path.relative_to(ROOT)}:{number}: {name}" for name in pattern.findall(line)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--strays", action="store_true")
    options = parser.parse_args()
    try:
        contract = read(ROOT / "contract")
    except ContractError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.write:
        write(committed(contract), ROOT)
    if options.build:
        write(built(contract), options.build)
    wrong = different(committed(contract), ROOT) if options.check else []
    for name in wrong:
        print(f"{name}: is not what contract/ says; run tools/contract.py --write")
    spelled = strays(contract) if options.strays else []
    for line in spelled:
        print(line)
    if options.strays:
        print(f"{len(spelled)} literals in {len({line.split(':')[0] for line in spelled})} files")
    return 1 if wrong or spelled else 0


if __name__ == "__main__":
    sys.exit(main())
