"""`sonde mcp`: an agent asks about recorded faults, by the protocol's own client."""

import asyncio
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from processes import CLI, clean_environment, run_in

from sonde.agents.pages import Pages
from sonde.agents.tool_table import TOOLS

ROOT = pathlib.Path(__file__).parents[2]
SCORE = ROOT / "tests/faults/score.py"
MODULE = "sonde.programs.mcp_server"
MOST_CALLS, MOST_CHARACTERS = 6, 20_000


@pytest.fixture(scope="module")
def faults(once_per_run):
    """Planted faults, recorded once: {name: (kind, places)}, and the directory with a link to each dump."""

    def record(directory):
        kinds = ["--kind", "non_finite", "--kind", "differs", "--evidence", "tensors"]
        kept = ["--keep", directory / "dumps", "--json"]
        run = run_in(directory, None, sys.executable, SCORE, "--short", *kinds, *kept, timeout=600, SONDE_CLI=CLI)
        (directory / "results.json").write_text(run.stdout)
        for dump in (directory / "dumps").glob("*/*/"):
            (directory / f"{dump.parent.name.removesuffix('-tensors')}-{dump.name}").symlink_to(dump)

    directory = once_per_run("mcp-faults", record)
    results = json.loads((directory / "results.json").read_text())["results"]
    return directory, {one["case"]: (one["kind"], set(map(tuple, one["places"]))) for one in results}


class Agent:
    """A connection, with the number of its calls and the characters of the answers."""

    def __init__(self, session):
        self.session = session
        self.calls = self.characters = 0

    async def text(self, tool, **arguments):
        """(the answer's text, whether it is an error)"""
        answer = await self.session.call_tool(tool, arguments)
        [content] = answer.content
        self.calls += 1
        self.characters += len(content.text)
        return content.text, answer.is_error

    async def ask(self, tool, **arguments):
        text, is_error = await self.text(tool, **arguments)
        assert not is_error, text
        return json.loads(text)


@contextlib.asynccontextmanager
async def agent_of(*dumps):
    """Environment as of a user; the command is the one that the tests use."""
    variables = {name: os.environ[name] for name in ("PYTHONPATH", "LD_PRELOAD") if name in os.environ}
    path = f"{pathlib.Path(CLI).parent}{os.pathsep}{os.environ['PATH']}"
    server = StdioServerParameters(
        command=sys.executable, args=["-m", MODULE, *map(str, dumps)], env=clean_environment(**variables, PATH=path)
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield Agent(session)


def with_agent(dumps, work):
    """The result of work(agent)."""

    async def run():
        async with agent_of(*dumps) as agent:
            return await work(agent)

    return asyncio.run(run())


@pytest.fixture(scope="module")
def dump(faults):
    return faults[0] / "log_of_zero-target"


# --- the planted line -------------------------------------------------------------------------------------------------


async def line_of_nan(agent, dump):
    """The agent's way from a NaN to a line: the first bad operator, its neighbours, its tensor."""
    first = (await agent.ask("first_bad", dump=dump))["first"]
    place = {"dump": dump, **{name: first[name] for name in ("step", "rank", "graph") if first.get("dump", "") == ""}}
    op = first.get("op_name") or first["tensor"]["parameter"]
    await agent.ask("graph", op=op, **place)
    tensor = first["tensor"]
    shown = await agent.ask("show", tensor=f"{op}:{tensor['side']}.{tensor['slot']}", **place)
    assert shown["op_name"] == op
    return pathlib.Path(first["code"]["source_file"]).name, first["code"]["source_line"]


async def line_of_difference(agent, target, golden):
    """The same of two dumps: the first difference, and the operators around it."""
    first = (await agent.ask("compare", target=target, golden=golden))["findings"][0]
    if not first["in_golden"]:
        place = {name: first[name] for name in ("step", "rank", "graph")}
        await agent.ask("graph", dump=target, op=first["op_name"], **place)
    return pathlib.Path(first["source_file"]).name, first["source_line"]


async def way_to(agent, name, kind):
    before = agent.calls, agent.characters
    try:
        if kind == "differs":
            place = await line_of_difference(agent, f"{name}-target", f"{name}-golden")
        else:
            place = await line_of_nan(agent, f"{name}-target")
    except (AssertionError, KeyError, IndexError, TypeError) as error:
        place = repr(error)
    return place, agent.calls - before[0], agent.characters - before[1]


def test_an_agent_reaches_the_planted_line_in_few_calls_and_characters(faults):
    directory, known = faults
    assert len(known) >= 20

    async def work(agent):
        return {name: await way_to(agent, name, kind) for name, (kind, _) in known.items()}

    ways = with_agent(sorted(directory.glob("*-target")) + sorted(directory.glob("*-golden")), work)
    print(max(ways.values(), key=lambda way: way[2]))
    assert {name: place for name, (place, _, _) in ways.items() if place not in known[name][1]} == {}
    assert max(calls for _, calls, _ in ways.values()) <= MOST_CALLS
    assert max(characters for _, _, characters in ways.values()) <= MOST_CHARACTERS


# --- tools and arguments ----------------------------------------------------------------------------------------------


def contract():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import contract_language
    finally:
        del sys.path[0]
    return contract_language.read(ROOT / "contract")


def test_the_tools_are_those_verbs_and_options_of_the_contract_that_write_nothing_and_name_no_path(dump):
    tools = with_agent([dump], lambda agent: agent.session.list_tools()).tools
    found = {tool.name: tool for tool in tools}
    assert set(found) == {
        "ls",
        "first_bad",
        "show",
        "graph",
        "stats",
        "compare",
        "watch",
        "headroom",
        "stomp",
        "verify",
        "more",
    }
    for command in contract().commands:
        name = command.verb.replace("-", "_")
        if name not in found:
            continue
        offered = {option.name: option for option in command.options if option.tool}
        properties = found[name].input_schema["properties"]
        assert set(properties) == {*offered, "limit"}
        assert found[name].annotations.read_only_hint
        assert found[name].input_schema["additionalProperties"] is False
        for option in offered.values():
            assert option.base != "path" and option.unit not in ("FILE", "DIR", "PROGRAM"), option
            assert properties[option.name]["description"]
        assert not {"out", "to", "python", "picture", "txt", "save_map", "csv", "complete", "next_config"} & set(
            offered
        )


BAD = [
    ("stats", {"limit": 10**12}, "argument 'limit': expected a whole number from 1000 to 50000, found 1000000000000"),
    ("stats", {"limit": 0}, "argument 'limit': expected a whole number from 1000 to 50000, found 0"),
    ("first_bad", {"rank": 10**12}, "argument 'rank': expected a whole number from 0 to 4294967295"),
    ("first_bad", {"rank": "first"}, "argument 'rank': expected a whole number from 0 to 4294967295, found 'first'"),
    ("first_bad", {"step": 10**12}, "no step 1000000000000; there is 0-2 in "),
    ("first_bad", {"step": {"a": 1}}, "argument 'step': expected a text such as '3', '0-5' or '1|4', found {'a': 1}"),
    ("graph", {"distance": 10**12}, "argument 'distance': expected a whole number from 0 to 1073741824"),
    ("first_bad", {"no_trend": "yes"}, "argument 'no_trend': expected true or false, found 'yes'"),
    ("first_bad", {"steps": 1}, "no argument 'steps'; there are dump, step, graph, rank, request, no_trend, limit"),
    ("verify", {"complete": True}, "no argument 'complete'; there are dump, rank, hashes, ranks, limit"),
    ("show", {"picture": "a.png"}, "no argument 'picture'; there are "),
    ("watch", {"side": "left"}, "argument 'side': expected one of output, input, both, found 'left'"),
    ("watch", {"conditions": ["no_such"]}, "condition 'no_such': "),
    ("watch", {"conditions": ["a"] * 300}, "argument 'conditions': expected at most 256 values, found 300"),
    ("show", {"tensor": "x" * 5000}, "argument 'tensor': expected a text of at most 4096 characters, found 'xxx"),
    ("show", {"tensor": "--picture=a.png"}, "no op or tensor '--picture=a.png'"),
    ("show", {"tensor": "no-such-op"}, "no op or tensor 'no-such-op'"),
    ("ls", {"dump": "other"}, "no dump 'other'; there are 'log_of_zero-target' (0)"),
    ("ls", {"dump": "/"}, "no dump '/'; there are 'log_of_zero-target' (0)"),
    ("ls", {"dump": 1}, "no dump 1; there are 'log_of_zero-target' (0)"),
    ("show", {"tensor": "/etc/passwd"}, "'/etc/passwd' is not in a dump of this server; there are "),
    ("show", {"tensor": "../../results.json"}, "'../../results.json' is not in a dump of this server; there are "),
    ("stats", {"select": ["/etc/*"]}, "'/etc/*' is not in a dump of this server; there are "),
    ("compare", {}, "compare() needs `golden`, or `golden_step` or `golden_graph` of the same dump"),
    ("more", {"handle": "a99"}, "no handle 'a99', or one of an answer long ago; ask the question again"),
    ("more", {}, "argument 'handle' is missing: "),
    ("export", {"to": "a.npz"}, "no tool 'export'; there are compare, first_bad, "),
]


def test_a_bad_argument_is_an_answer_that_says_what_is_expected(dump):
    async def work(agent):
        return [await agent.text(tool, **arguments) for tool, arguments, _ in BAD]

    for (tool, arguments, expected), (text, is_error) in zip(BAD, with_agent([dump], work), strict=True):
        assert is_error, (tool, arguments, text)
        assert text.startswith(expected), (tool, arguments, text)
        assert "Traceback" not in text and len(text) < 400


def test_of_several_dumps_a_question_names_one_by_its_name_or_its_number(faults):
    dumps = [faults[0] / f"log_of_zero-{which}" for which in ("target", "target")]

    async def work(agent):
        missing = await agent.text("ls")
        found = [await agent.ask("ls", dump=name) for name in ("log_of_zero-target-2", 0, "1")]
        return missing, [one["path"] for one in found]

    (text, is_error), paths = with_agent(dumps, work)
    assert is_error
    assert text.endswith("; there are 'log_of_zero-target' (0), 'log_of_zero-target-2' (1)")
    assert set(paths) == {str(dumps[0].resolve())}


EVERY_TOOL = [
    ("ls", {"ops": True}),
    ("first_bad", {}),
    ("show", {"tensor": "log-op0:output.0", "trend": ["max", "l2norm"]}),
    ("graph", {}),
    ("stats", {"select": ["log", "sum"], "step": [0, 1]}),
    ("compare", {"step": "0", "golden_step": "1"}),
    ("watch", {"recommended": True}),
    ("watch", {"list": True}),
    ("stomp", {"graph": 0}),
    ("headroom", {"graph": 0}),
    ("verify", {"hashes": True, "ranks": True}),
]


def test_every_tool_keeps_its_limit_and_leaves_the_dump_as_it_was(dump):
    def state():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in dump.resolve().parent.rglob("*")}

    async def work(agent):
        return [await agent.text(tool, limit=limit, **given) for tool, given in EVERY_TOOL for limit in (1500, 4000)]

    before = state()
    answers = with_agent([dump], work)
    assert state() == before
    assert {tool for tool, _ in EVERY_TOOL} == {tool.name for tool in TOOLS}
    for i, (text, is_error) in enumerate(answers):
        assert not is_error, text
        assert len(text) <= (1500, 4000)[i % 2]


# --- parts of answers -------------------------------------------------------------------------------------------------


def test_more_gives_the_rows_that_were_cut_off_until_there_are_none(dump):
    async def work(agent):
        rows = (await agent.ask("stats"))["tensors"]
        while "more" in rows[-1]:
            *shown, rest = rows
            answer = await agent.ask("more", handle=rest["handle"], limit=20_000)
            assert (answer["from"], answer["of"] - answer["from"]) == (len(shown), rest["more"])
            rows = [*shown, *answer["rows"]]
        return [(row["op_name"], row["side"], row["slot"], row["step"]) for row in rows]

    shown = subprocess.run([CLI, "stats", dump, "--json"], capture_output=True, check=False)
    expected = json.loads(shown.stdout)["tensors"]
    assert with_agent([dump], work) == [(row["op_name"], row["side"], row["slot"], row["step"]) for row in expected]


def random_document(choice, depth=3):
    kind = choice.randrange(4 if depth else 2)
    if kind < 2:
        return choice.choice([True, None, 7, 0.5, "x" * choice.randrange(1, 60)])
    if kind == 2:
        return [random_document(choice, depth - 1) for _ in range(choice.randrange(1, 40))]
    return {f"m{i}": random_document(choice, depth - 1) for i in range(choice.randrange(1, 6))}


def whole(pages, value, limit):
    """A shown value with the rows behind its handles."""
    if isinstance(value, dict) and set(value) == {"more", "handle"}:  # in place of an object
        [found] = further(pages, value, limit)
        return found
    if isinstance(value, dict):
        return {name: whole(pages, one, limit) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    *rows, last = value or [None]
    if not isinstance(last, dict) or "handle" not in last:
        return [whole(pages, one, limit) for one in value]
    return [*(whole(pages, one, limit) for one in rows), *further(pages, last, limit)]


def further(pages, rest, limit):
    """The rows behind a handle."""
    text = pages.more(rest["handle"], limit)
    assert len(text) <= limit
    rows = whole(pages, json.loads(text)["rows"], limit)
    assert len(rows) == rest["more"]
    return rows


@pytest.mark.parametrize("limit", [1000, 4000])
@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_any_document_are_the_document(seed, limit):
    document = {f"top{i}": random_document(random.Random(100 * seed + i)) for i in range(4)}
    pages = Pages()
    text = pages.first(document, limit)
    assert len(text) <= limit
    assert whole(pages, json.loads(text), limit) == document


def test_a_repeated_part_is_named_and_empty_members_of_rows_are_left_out():
    finding = {"why": "log of 0: input.0[0] = 0", "op_name": "Default/network-Net/log-op0", "tags": [], "step": 0}
    finding |= {"code": {"source_file": "/home/user/train.py", "source_line": 16}}
    text = Pages().first({"first": finding, "findings": [finding, {**finding, "step": 1}], "notes": []}, 4000)
    found = json.loads(text)
    assert found["findings"][0] == {"same_as": "first"}
    assert found["findings"][1]["step"] == 1
    assert "tags" not in found["first"]
    assert found["notes"] == []


def test_the_document_has_the_text_of_the_skill():
    skill = (ROOT / "examples/agents/SKILL.md").read_text()
    assert f"````markdown\n{skill}````\n" in (ROOT / "docs/agents.md").read_text()


# --- start ------------------------------------------------------------------------------------------------------------


def started(*arguments, code=f"import runpy; runpy.run_module('{MODULE}', run_name='__main__')"):
    variables = {name: os.environ[name] for name in ("PYTHONPATH", "LD_PRELOAD") if name in os.environ}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    run = subprocess.run(
        command, env=clean_environment(**variables), input="", capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout, run.stderr


def test_a_missing_package_is_one_line_that_names_the_cure(tmp_path):
    code = f"import sys; sys.modules['mcp'] = None; from {MODULE} import main; sys.exit(main('run7'))"
    assert started(code=code) == (2, "", "sonde: error: sonde mcp needs mcp: pip install 'tensorsonde[mcp]'\n")


def test_without_a_dump_it_does_not_start(tmp_path):
    assert started() == (2, "", "sonde: error: DUMP is missing: sonde mcp DUMP…\n")
    status, out, error = started(tmp_path / "nowhere")
    assert (status, out) == (3, "")
    assert error.startswith("sonde: error: cannot open dump ") and error.count("\n") == 1


def test_it_ends_with_its_input(dump):
    assert started(dump) == (0, "", "")
