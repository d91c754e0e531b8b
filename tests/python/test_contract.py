"""contract/ declares each name that leaves the process; tools/contract.py makes the rest from it."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import contract as tool  # noqa: E402
import contract_language  # noqa: E402


def test_the_committed_files_are_those_of_the_contract():
    command = [sys.executable, ROOT / "tools/contract.py", "--check"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")


@pytest.fixture
def change(tmp_path):
    """change(file, before, after): the texts of all faces, made from a contract with this change."""

    def made(file, before, after):
        directory = tmp_path / "contract"
        if not directory.exists():
            shutil.copytree(ROOT / "contract", directory)
        path = directory / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))
        contract = contract_language.read(directory)
        return tool.committed(contract) | tool.built(contract)

    return made


def test_one_line_brings_a_member_to_every_face(change):
    files = change(
        "questions/first_bad.toml",
        "looked_at = [",
        'steps_left = ["[count]", "steps that were not looked at"]\nlooked_at = [',
    )
    faces = {name for name, text in files.items() if "steps_left" in text}
    assert faces == {
        "sonde/answers.h",
        "contract/members.h",
        "contract/names.h",
        "python/sonde/answer_types.py",
        "python/sonde/agents/tool_table.py",
        "web/src/answers.ts",
        "docs/json/first-bad.schema.json",
        "docs/json/answers.md",
        "src/face/server/openapi.json",
    }


def test_one_line_brings_an_option_to_every_face(change):
    files = change(
        "questions/watch.toml",
        "recommended = [",
        'hardest = ["count", "the hardest ones", { asked = true, job = true }]\nrecommended = [',
    )
    faces = {name for name, text in files.items() if "hardest" in text}
    assert faces == {
        "sonde/questions.h",
        "contract/commands.h",
        "contract/jobs.h",
        "contract/question_fields.h",
        "python/sonde/answer_types.py",
        "web/src/answers.ts",
        "docs/json/answers.md",
        "src/face/server/openapi.json",
    }


def test_an_option_with_tool_is_an_argument_of_sonde_mcp_unless_it_names_a_file(change):
    line = 'hardest = ["count", "the hardest ones, as --list prints them", { tool = true }]\nrecommended = ['
    table = change("questions/watch.toml", "recommended = [", line)["python/sonde/agents/tool_table.py"]
    assert 'Argument("hardest", "--hardest", "count", "the hardest ones, as list prints them", least=0, ' in table
    with pytest.raises(contract_language.ContractError, match=r"watch\.toml:.*'map' names a file: it cannot be"):
        change("questions/watch.toml", "recommended = [", 'map = ["path", "a file", { tool = true }]\nrecommended = [')


def test_one_line_brings_a_key_of_a_configuration_to_the_engine_and_the_document(change):
    line = 'calm = ["a boolean", "say less", { flag = true }]'
    files = change("settings.toml", "[settings.sonde_settings]\n", f"[settings.sonde_settings]\n{line}\n")
    faces = {name for name, text in files.items() if "calm" in text}
    made = {"contract/settings.h", "contract/setting_keys.h", "contract/plain_settings.h"}
    assert faces == {*made, "docs/compatibility.md"}
    assert "bool calm = true;" in files["contract/plain_settings.h"]
    assert "| `calm` | a boolean | true | say less |" in files["docs/compatibility.md"]


def test_a_number_and_a_word_of_a_configuration_are_read_by_what_the_contract_says(change):
    lines = """calls = ["1 to 9", "how often", { number = 2, least = 1, most = 9, allowed = "a digit" }]
mood = ["`calm`, `loud`", "how loud", { words = ["calm", "loud"], type = "Mood" }]
"""
    text = change("settings.toml", "[settings.sonde_settings]\n", f"[settings.sonde_settings]\n{lines}")
    plain = text["contract/plain_settings.h"]
    assert "std::uint64_t calls = 2;" in plain
    assert 'visit("calls", settings.calls, NumberBounds{1U, 9U, "a digit"});' in plain
    assert "enum class Mood : std::uint8_t { calm, loud };" in plain
    assert 'visit("mood", settings.mood, std::array<std::string_view, 2>{"calm", "loud"});' in plain


def test_one_line_brings_a_statistic_to_every_table(change):
    files = change("statistics.toml", '"zero_count?"', '"odd_count?" = ["count", "odd elements"]\n"zero_count?"')
    assert "std::optional<std::uint64_t> odd_count;" in files["sonde/known_statistics.h"]
    assert 'visit(std::string_view("odd_count"), ' in files["sonde/known_statistics.h"]
    assert "    odd_count: int | None\n" in files["python/sonde/answer_types.py"]


def test_one_line_brings_a_column_to_a_table(change):
    rows = change("tables.toml", 'host = ["text"', '"cores?" = ["index", "processors"]\nhost = ["text"')[
        "contract/tables.h"
    ]
    assert "  std::optional<std::uint32_t> cores{};  // processors\n" in rows
    assert 'RowField{"cores", &tables::Runs::cores},' in rows


def test_one_line_brings_a_column_to_a_table_of_the_server(change):
    files = change("tables.toml", 'worst_op = ["text"', '"worst_line?" = ["text", "its line"]\nworst_op = ["text"')
    faces = {name for name, text in files.items() if "worst_line" in text}
    assert faces == {"contract/served_rows.h", "src/face/server/openapi.json", "web/src/answers.ts"}
    rows = files["contract/served_rows.h"]
    assert "  std::optional<std::string> worst_line{};\n" in rows
    assert 'RowColumn{"worst_line", &ServedHealth::worst_line, ColumnType::text},' in rows


def test_a_word_of_an_enum_may_have_a_hyphen(change):
    answers = change("served.toml", '"failed", "cancelled"]', '"failed", "timed-out"]')["contract/served_answers.h"]
    assert "done, failed, timed_out };" in answers and '"done", "failed", "timed-out"}' in answers


def test_one_line_brings_a_member_to_an_answer_of_the_server(change):
    files = change("served.toml", "has_scopes = [", '"operator" = ["text", "the first one below"]\nhas_scopes = [')
    faces = {name for name, text in files.items() if "the first one below" in text}
    assert faces == {"contract/served_answers.h", "src/face/server/openapi.json", "web/src/answers.ts"}
    answers = files["contract/served_answers.h"]
    assert "  std::string operator_; " in answers
    assert 'Member{"operator", &server::ScopeBelow::operator_},' in answers
    assert "  readonly operator: string; // the first one below\n" in files["web/src/answers.ts"]


def test_one_line_brings_a_column_to_a_table_of_python(change):
    files = change("tables.toml", "failed = [", 'retried = ["flag", "it ran again"]\nfailed = [')
    assert "    retried: NDArray[Any]\n" in files["python/sonde/dump/column_types.py"]


def test_a_document_of_several_forms_has_the_members_of_each(change):
    files = change("questions/show.toml", "written_by = [", 'thread = ["index", "that wrote it"]\nwritten_by = [')
    faces = {name for name, text in files.items() if '"thread"' in text or " thread" in text or "`thread`" in text}
    assert {"contract/command_answers.h", "docs/json/show.schema.json"} <= faces
    assert "`thread`, `written_by`, `read_by`; or `tensor_file`," in files["docs/json/answers.md"].replace("\n", " ")


def test_no_file_spells_a_name_of_the_contract():
    command = [sys.executable, ROOT / "tools/contract.py", "--strays"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "0 literals in 0 files\n")


def test_few_files_spell_a_statistic():
    places = ("src", "cli", "python", "web/src", "include", "adapters")
    command = ["git", "grep", "-lw", "positive_inf_count", "--", *places]
    found = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT).stdout.split()
    assert len(found) <= 15, found


def test_an_answer_of_the_library_alone_is_in_no_document(change):
    files = change("questions/watch.toml", "detail = [", 'mood_of_it = ["text", "how it is"]\ndetail = [')
    faces = {name for name, text in files.items() if "mood_of_it" in text}
    assert faces == {
        "sonde/answers.h",
        "contract/members.h",
        "contract/names.h",
        "python/sonde/answer_types.py",
    }


def test_a_member_that_not_every_form_has_can_be_missing_in_each_language(change):
    text = 'form = ["flag", "of lost ones"]\nlost = ["text"'
    files = change("questions/convert.toml", 'lost = ["text"', text)
    files = change("questions/convert.toml", '"lost", "why"]', '"lost", "why", "form"]')
    assert "ConvertedFiles" not in files["web/src/answers.ts"]
    files = change("questions/convert.toml", "python = [", 'page = ["ConvertedFiles"]\npython = [')
    assert "std::optional<bool> form;" in files["sonde/answers.h"]
    assert "    form: bool = False" in files["python/sonde/answer_types.py"]
    assert "  readonly form?: boolean;" in files["web/src/answers.ts"]


def test_a_word_of_several_parts_is_a_name_in_cpp(change):
    files = change("questions/verify.toml", '"torn"', '"torn off"')
    assert "  torn_off," in files["contract/command_answers.h"]


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("tables.toml", 'host = ["text"', 'host = ["dtype"', "unknown type 'dtype' of 'host'"),
        ("tables.toml", '_table = "runs"\n', "", "Runs has no _table, _served or _python"),
        ("tables.toml", 'bad = ["byte"', 'bad = ["bite"', "unknown type 'bite' of 'bad'"),
        (
            "questions/show.toml",
            '_any_of = ["ShownTensor"',
            '_any_of = ["ShownFiles"',
            "_any_of names 'ShownFiles': there is no such type",
        ),
        ("settings.toml", "number = 8, allowed", "number = 8, alowed", "unknown fact 'alowed' of key 'ring_writes'"),
        ("settings.toml", 'type = "WhenFull"', 'default = "x"', "Duplicate"),
        ("findings.toml", 'why = ["text"', 'why = ["words"', "unknown type 'words' of 'why'"),
        ("findings.toml", "evidence = ", 'why = ["text", "again"]\nevidence = ', "Cannot overwrite a value"),
        (
            "findings.toml",
            "evidence = ",
            '"why?" = ["text", "again"]\nevidence = ',
            "member 'why' of Finding is declared twice",
        ),
        ("findings.toml", 'severity = ""', 'gravity = ""', "'gravity' of Finding is not in words.toml"),
        (
            "findings.toml",
            '["text", "the reason, in a sentence"]',
            '["text", ""]',
            "'why' of Finding needs [type, meaning]",
        ),
        ("findings.toml", "[Tensor]", "[Finding2]\n[Tensor]", "Finding2 has no _meaning"),
        (
            "statistics.toml",
            "[Statistics]",
            "[Finding]\n_meaning = 'x'\n[Statistics]",
            "type 'Finding' is declared twice",
        ),
        ("words.toml", '"name"]', '"secret"]', "unknown privacy 'secret'; known: word, name, type, rank"),
        ("words.toml", 'Side = ["input", "output"]', 'Side = ["input"', "Unclosed array"),
        ("questions/stomp.toml", 'verb = "stomp"\n', "", "a question needs 'verb'"),
        ("questions/stomp.toml", 'answer = "StompReport"', 'answer = "Stomp"', "'answer' names Stomp"),
        (
            "questions/ls.toml",
            'ops = ["flag", "list the ops, with scope and source line", ',
            'ops = ["flag", "", ',
            "option 'ops' needs [type, help]",
        ),
        ("options.toml", ', choices = ["auto", "always", "never"]', "", "option 'color' needs 'choices'"),
        ("questions/ls.toml", 'ops = ["flag", "list', 'ops = ["flog", "list', "unknown type 'flog' of option 'ops'"),
        ("questions/ls.toml", 'jsonl = "', 'json = "', "Cannot overwrite a value"),
        (
            "questions/serve.toml",
            "until_input_ends = [",
            'until-input-ends = ["flag", "again"]\nuntil_input_ends = [',
            "option '--until-input-ends' is declared twice",
        ),
        ("questions/stomp.toml", "graph = {", 'scope = ""\ngraph = {', "option 'scope' is not in options.toml"),
        ("questions/run.toml", '["prove"]', '["proof"]', "names 'proof', which is none"),
        ("questions/run.toml", 'unit = "OP"', 'units = "OP"', "unknown fact 'units' of option 'kernels'"),
        ("questions/stats.toml", 'sets = ["DumpOptions"]', 'sets = ["Dump"]', "unknown set 'Dump'"),
        ("questions/stats.toml", "help = ", "halp = ", "a verb needs 'help'"),
        ("settings.toml", '"0, 1, 2", "0 all', '"", "0 all', "key 'dump_mode' needs [accepted, meaning]"),
        ("settings.toml", "flag = true", "flug = true", "unknown fact 'flug' of key 'class_names_in_scope'"),
        (
            "questions/ls.toml",
            '["path", "ops"]]',
            '["path", "opps"]]',
            "_forms names 'opps', and Listing has no such member",
        ),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(change, file, before, after, message):
    with pytest.raises(contract_language.ContractError) as found:
        change(file, before, after)
    place, _, rest = str(found.value).partition(": ")
    path, line = place.rsplit(":", 1)
    assert pathlib.Path(path).match(f"contract/{file}") or "twice" in message
    assert message in rest
    lines = pathlib.Path(path).read_text().splitlines()
    assert 1 <= int(line) <= len(lines) + 1
