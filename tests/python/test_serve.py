"""Every answer of `sonde serve` is as src/face/server/openapi.json says, on dumps of every layout."""

import csv
import gzip
import io
import json
import pathlib
import re
import sys
import textwrap
import urllib.request

import numpy as np
import pyarrow.ipc
import pytest
from conftest import SMALL_TRAINING
from golden_cases import TREES
from processes import CLI, python, run_in
from serving import ARROW, OPENAPI, Server, answer_of, conform, serving
from test_index import RECORD

# With a NaN in step 1, and another learning rate.
NAN_TRAINING = SMALL_TRAINING.replace("lr=0.1", "lr=0.2").replace(
    "        loss.backward()", "        loss = loss + torch.log(0.5 - step + 0 * loss)\n        loss.backward()"
)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """The dumps of golden cases: tensors of each layout, statistics alone, a graph alone."""
    directory = tmp_path_factory.mktemp("golden", numbered=True)
    names = sorted({*TREES.values(), "mindspore-2.7-statistic", "graph-only", "mindspore-2.7-overflow"})
    done = run_in(directory, None, sys.executable, "-c", RECORD, pathlib.Path(__file__).parent, directory, *names)
    assert done.status == 0, done.stderr
    return {name: directory / name.replace(".", "_") / "dump" for name in names}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A dump with a NaN in step 1, and a server of it and of itself."""
    directory = tmp_path_factory.mktemp("served", numbered=True)
    (directory / "train.py").write_text(textwrap.dedent(NAN_TRAINING))
    run = [CLI, "run", "--out", directory / "nan", "--saved-data", "full", "--", *python(), "train.py"]
    assert run_in(directory, None, *run).status == 0
    server = Server(directory / "nan", directory / "nan")
    server.dump = directory / "nan"
    yield server
    assert server.close() == 0, server.messages


@pytest.fixture(scope="module")
def several_ranks(tmp_path_factory):
    """A server of ranks 0 to 2 of four, each with a NaN in step 1; rank 1 has two steps, the others three."""
    directory = tmp_path_factory.mktemp("ranks", numbered=True)
    (directory / "train.py").write_text(textwrap.dedent(NAN_TRAINING))
    for rank in range(3):
        steps = "0-1" if rank == 1 else "0-2"
        run = [CLI, "run", "--out", directory / "dump", "--saved-data", "statistic", "--iteration", steps, "--"]
        done = run_in(directory, None, *run, *python(), "train.py", RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=4)
        assert done.status == 0, done.stderr
    server = Server(directory / "dump")
    yield server
    assert server.close() == 0, server.messages


def arrow_table(answer):
    assert answer.headers["Content-Type"] == ARROW
    table = pyarrow.ipc.open_stream(io.BytesIO(answer.body)).read_all()
    table.validate(full=True)
    return table


def test_a_table_as_csv_has_all_rows_in_the_order_that_was_asked_for(trained):
    query = {"filter": "side:output phase:forward", "sort": "-l2norm"}
    reply = trained.get("tensors", accept="text/csv", limit=100_000, **query)
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/csv"
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    shown = trained.get("tensors", limit=1000, **query).json["rows"]
    assert [(row["op_name"], row["step"], row["shape"]) for row in rows] == [
        (row["op_name"], str(row["step"]), "(" + ",".join(map(str, row["shape"])) + ")") for row in shown
    ]
    assert [row["l2norm"] for row in rows] == [
        "" if row["l2norm"] is None else str(float(row["l2norm"])).removesuffix(".0") for row in shown
    ]
    assert trained.get("tensors", limit=100_000).status == 422  # of JSON a page has 1000
    assert len(arrow_table(trained.get("tensors", accept=ARROW, limit=100_000, **query))) == len(rows)


def json_cell(value, column):
    """A cell of an Arrow table as the JSON table has it."""
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return json.loads(f"[{value[1:-1]}]") if column == "shape" and value is not None else value


def check_table(server, path, columns_of="x-arrow-columns", **query):
    """The answer as JSON and as Arrow: as described, and equal to each other."""
    answer = server.get(path, **query)
    assert answer.status == 200, (path, answer.body)
    described = answer_of(f"/{path}")
    conform(described["content"]["application/json"]["schema"], answer.json)
    place = described["content"][ARROW] if columns_of == "x-arrow-columns" else described
    table = arrow_table(server.get(path, accept=ARROW, **query))
    columns = [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in table.schema]
    types = {
        "double": "float64",
        "string": "utf8",
        "dictionary<values=string, indices=int32, ordered=0>": "dictionary<int32, utf8>",
    }
    for column in columns:
        column["type"] = types.get(column["type"], column["type"])
    assert columns == place[columns_of], path
    rows = [{name: json_cell(value, name) for name, value in row.items()} for row in table.to_pylist()]
    assert rows == answer.json["rows"], path
    return answer.json


def check_json(server, path, **query):
    answer = server.get(path, **query)
    assert answer.status == 200, (path, answer.body)
    assert answer.headers["Cache-Control"] == "no-store"
    conform(answer_of(f"/{path}")["content"]["application/json"]["schema"], answer.json)
    return answer.json


def check_tensor(server, where):
    """Every question about a tensor with values."""
    check_json(server, "tensor/statistics", **where)
    for scale in ("linear", "log", "symlog"):
        histogram = check_json(server, "tensor/histogram", bins=8, scale=scale, **where)
        bad = sum(histogram[f"{kind}_count"] for kind in ("nan", "positive_inf", "negative_inf"))
        whole = np.load(io.BytesIO(server.get("tensor/file", **where).body))
        assert sum(histogram["counts"]) + histogram["below"] + histogram["above"] + bad == whole.size
    for kind in ("nan", "inf", "bad", "max", "min"):
        found = check_json(server, "tensor/next", of=kind, **where)
        if found["index"] is not None:
            assert np.ravel_multi_index(found["index"], whole.shape or (1,)) == found["flat"] or not whole.shape
    values = np.load(io.BytesIO(server.get("tensor/values", **where).body))
    assert np.array_equal(values, whole, equal_nan=True)
    check_table(server, "tensor/heat", w=3, h=3, **where)


def test_every_answer_is_as_described_on_every_layout(dumps):
    asked = set()
    for name, dump in dumps.items():
        with serving(dump) as server:
            state = check_json(server, "status")
            assert state["state"] == "ready", (name, state)
            assert check_json(server, "overview")["steps"], name
            ops = check_table(server, "ops", limit=1000)
            tensors = check_table(server, "tensors", limit=1000)
            assert name == "graph-only" or tensors["rows"], name
            check_table(server, "health")
            check_table(server, "health", by="op", w=1, h=2)
            check_table(server, "health", rows=2, first_row=1)
            check_table(server, "curves", limit=20)
            check_table(server, "curves", of="ops", column="max", w=2)
            check_table(server, "gradients")
            check_json(server, "scopes")
            check_json(server, "source")
            check_json(server, "search", q="conv")
            check_json(server, "conditions")
            check_json(server, "jobs")
            check_table(server, "graph")
            check_table(server, "graph", "x-arrow-columns-of-edges", part="edges")
            for row in [*ops["rows"][:3], *ops["rows"][-2:]]:
                where = {key: row[key] for key in ("rank", "graph", "step")} | {"name": row["op_name"]}
                shown = check_json(server, "op", **where)
                assert shown["op_name"] == row["op_name"]
                for direction in ("cause", "effect"):
                    check_json(server, "path", direction=direction, **where)
                check_table(server, "trend", name=row["op_name"])
            with_values = [row for row in tensors["rows"] if row["tensor_file"]]
            for row in with_values[:2]:
                place = {key: row[key] for key in ("rank", "graph", "step", "side", "slot")}
                check_tensor(server, place | {"name": row["op_name"]})
                asked.add(name)
    assert len(asked) >= 8


def test_openapi_is_valid_and_every_path_of_it_is_asked_here(trained):
    assert trained.get("openapi.json").json == OPENAPI
    files = [pathlib.Path(__file__).with_name(f"{name}.py") for name in ("test_serve", "test_serve_jobs", "serving")]
    here = "".join(file.read_text() for file in files)
    for path in OPENAPI["paths"]:
        assert re.search(rf'["/]{path.lstrip("/").partition("/{")[0]}[?"/]', here), path


def test_a_table_of_tensors_is_that_of_stats(trained):
    shown = run_in(trained.dump, None, CLI, "stats", trained.dump, "--jsonl")
    known = [json.loads(line) for line in shown.stdout.splitlines()]
    rows = []
    while len(rows) < (page := trained.get("tensors", offset=len(rows), limit=100).json)["count"]:
        rows += page["rows"]
    assert len(rows) == len(known)
    for row, stats in zip(rows, known, strict=True):
        assert {key: row[key] for key in stats if key not in ("rank", "dump")} == {
            key: value for key, value in stats.items() if key not in ("rank", "dump")
        }


def test_a_map_is_given_by_rows_and_by_steps(trained):
    whole = trained.get("health", under="Default").json["rows"]
    names = list(dict.fromkeys(row["row"] for row in whole))
    assert len(names) > 3 and {row["row_count"] for row in whole} == {len(names)}
    parts = [
        trained.get("health", under="Default", rows=2, first_row=first).json["rows"]
        for first in range(0, len(names), 2)
    ]
    assert [row for part in parts for row in part] == whole
    step = whole[0]["first_step"]
    one = trained.get("health", under="Default", steps=f"{step}-{step}").json["rows"]
    assert [(row["row"], row["class"]) for row in whole if row["first_step"] == step] == [
        (row["row"], row["class"]) for row in one
    ]


def test_a_map_of_ranks_has_the_worst_of_each_in_the_columns_of_one(several_ranks):
    whole = several_ranks.get("health").json["rows"]
    worst = {}
    for row in whole:
        place = worst.setdefault((row["rank"], row["first_step"]), {"ops": 0, "nan_tensors": 0, "class": set()})
        place["ops"] += row["ops"]
        place["nan_tensors"] += row["nan_tensors"]
        place["class"].add(row["class"])
    ranks = several_ranks.get("health", by="rank", rank="1").json["rows"]
    assert len(ranks) == len({rank for rank, _ in worst}) * 2 > 4  # rank 1 has two of three steps
    for row in ranks:
        assert row["row"] == row["rank"] and row["row_count"] == 3
        place = worst[row["rank"], row["first_step"]]
        assert (row["ops"], row["nan_tensors"]) == (place["ops"], place["nan_tensors"])
        assert row["class"] in place["class"] and (row["class"] == "nan") == ("nan" in place["class"])
    assert {row["class"] for row in ranks} == {"fine", "nan"}
    parts = [several_ranks.get("health", by="rank", rank="1", rows=2, first_row=first) for first in (0, 2)]
    assert [row for part in parts for row in part.json["rows"]] == ranks


def test_a_rank_has_the_gradients_that_it_has_among_all(several_ranks):
    whole = several_ranks.get("gradients").json["rows"]
    for rank in "012":
        rows = several_ranks.get("gradients", rank=rank).json["rows"]
        assert rows and [(row["parameter"], row["first_step"], row["l2norm"]) for row in rows] == [
            (row["parameter"], row["first_step"], row["l2norm"]) for row in whole if row["rank"] == rank
        ]


def test_the_overview_says_how_many_processes_there_were(several_ranks):
    overview = several_ranks.get("overview").json
    assert overview["world_size"] == 4
    assert "the dump lacks rank 3: what was computed there is not known" in overview["warnings"]


def test_a_curve_is_the_trend_of_its_row(trained):
    query = {"filter": "side:output", "sort": "-l2norm", "offset": 3, "limit": 9}
    rows = trained.get("tensors", **query).json["rows"]
    curves = trained.get("curves", **query).json["rows"]
    assert sorted({point["row"] for point in curves}) == list(range(3, 12))
    for number, row in enumerate(rows, 3):
        trend = trained.get("trend", name=row["op_name"], side=row["side"], slot=row["slot"]).json["rows"]
        same = [at for at in trend if (at["rank"], at["graph"]) == (row["rank"], row["graph"])]
        course = [point for point in curves if point["row"] == number]
        assert [(at["step"], at["l2norm"], at["class"]) for at in same] == [
            (point["first_step"], point["value"], point["class"]) for point in course
        ]
    # Several steps in a column have the largest of their numbers, and a NaN before all.
    binned = [point for point in trained.get("curves", **query, w=1).json["rows"] if point["row"] == 3]
    values = [point["value"] for point in curves if point["row"] == 3]
    assert len(binned) == 1 and binned[0]["value"] == ("nan" if "nan" in values else max(values, key=float))
    assert trained.get("curves", column="shape").status == 422


def test_rows_are_filtered_and_sorted(trained):
    def names(**query):
        answer = trained.get("tensors", **query)
        assert answer.status == 200, answer.body
        return answer.json["rows"]

    norms = [row["l2norm"] for row in names(sort="-l2norm", limit=1000)]
    numbers = [norm for norm in norms if not isinstance(norm, str)]
    assert numbers == sorted(numbers, reverse=True)
    assert norms[0] == "nan"
    bad = names(filter="nan_count>0")
    assert bad and all(row["nan_count"] > 0 for row in bad)
    assert {row["op_type"] for row in names(filter="type:CONV2D")} == {"conv2d"}
    assert {row["phase"] for row in names(filter="phase:backward side:output")} == {"backward"}
    assert {row["class"] for row in names(filter="class:nan")} == {"nan"}
    assert {row["op_name"].rsplit("/", 1)[-1] for row in names(filter="conv2d-op0")} == {"conv2d-op0"}
    assert {row["parameter"] for row in names(filter="parameter:conv.*")} == {"conv.weight", "conv.bias"} | {
        row["parameter"] for row in names(filter="parameter:conv.*.grad*")
    }
    lines = {row["source_line"] for row in names(filter="op:relu")}
    assert {row["source_line"] for row in names(filter=f"source:train.py:{min(lines)}")} == {min(lines)}
    assert [row["op_id"] for row in names(offset=5, limit=3)] == [row["op_id"] for row in names(limit=8)][5:]
    assert list(names(columns="step,op_name", limit=1)[0]) == ["step", "op_name"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("ops?limit=1001", 422, "limit=1001: at most 1000"),
        ("ops?limit=-1", 422, "limit=-1: expected a number"),
        ("ops?limt=2", 422, "there is no parameter 'limt'; did you mean 'limit'?"),
        ("ops?limit=1&limit=2", 422, "the parameter 'limit' is there twice"),
        ("ops?step=a", 422, "step=a: expected steps"),
        ("ops?sort=nothing", 422, "cannot sort by 'nothing'"),
        ("ops?columns=op_nam", 422, "there is no column 'op_nam'; nearest: op_name"),
        ("tensors?filter=op:(", 422, "'(' is not a regular expression"),
        ("tensors?filter=phase:foward", 422, "expected one of forward"),
        ("tensors?filter=l2norm>x", 422, "expected a number"),
        ("tensors?filter=norm>1", 422, "there is no number 'norm'"),
        ('tensors?filter="a', 422, "inside quotes"),
        ("op?name=Default/network-Small/conv-Conv2d/conv2d-op9", 404, "nearest: "),
        ("op", 422, "the parameter 'name' is missing"),
        ("ops?dump=2", 404, "there is no dump 2"),
        ("ops?generation=77", 409, "the dump has changed"),
        ("graph?step=99", 404, "no such step"),
        ("source?file=/etc/passwd", 404, "no op of this dump has a line of '/etc/passwd'"),
        ("tensor/values?name=fc.weight&slice=[1,2,3]", 422, "more axes than the tensor"),
        ("tensor/values?name=fc.weight&slice=9", 422, "9 is outside"),
        ("tensor/values?name=fc.weight&slice=a", 422, "expected a number or a range"),
        ("tensor/heat?name=fc.weight&w=5000", 422, "w=5000: at most 4096"),
        ("tensor/histogram?name=fc.weight&bins=513", 422, "bins=513: at most 512"),
        ("tensor/next?name=fc.weight", 422, "the parameter 'of' is missing"),
        ("tensor/statistics?name=fc.weight&slot=7", 404, "has no output.7"),
        ("nothing", 404, "see api/v1/openapi.json"),
        ("jobs/7", 404, "there is no job 7"),
        ("jobs/x", 404, "there is no job 'x'"),
        ("pairs?job=99", 404, "is not a compare job"),
    ],
)
def test_a_wrong_question_is_answered_with_the_place_and_what_was_expected(trained, path, status, words):
    answer = trained.ask("api/v1/" + path.replace('"', "%22").replace(">", "%3E"))
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    conform("error", answer.json)
    assert words in answer.json["detail"]


def test_values_are_those_of_the_file(trained):
    where = {"name": "Default/network-Small/conv-Conv2d/conv2d-op0", "step": 1}
    file = trained.get("tensor/statistics", **where).json["tensor_file"]
    known = np.load(file)
    assert np.array_equal(np.load(io.BytesIO(trained.get("tensor/file", **where).body)), known)
    for text, part in (
        ("0", known[0]),
        ("[-1,:,1:3]", known[-1, :, 1:3]),
        (":,0,::2,4:2", known[:, 0, ::2, 4:2]),
        ("", known),
    ):
        answer = trained.get("tensor/values", slice=text, **where)
        assert np.array_equal(np.load(io.BytesIO(answer.body)), part), text
    heat = arrow_table(trained.get("tensor/heat", accept=ARROW, slice="0,1", w=2, h=3, **where)).to_pandas()
    rows = [known[0, 1][i * 6 // 3 : (i + 1) * 6 // 3] for i in range(3)]
    cells = [row[:, j * 6 // 2 : (j + 1) * 6 // 2] for row in rows for j in range(2)]
    assert np.allclose(heat["mean"], [cell.mean(dtype=float) for cell in cells], rtol=1e-12)
    assert list(heat["max"]) == [cell.max() for cell in cells]
    edges = np.linspace(known.min(), known.max(), 11)
    histogram = trained.get("tensor/histogram", bins=10, **where).json
    assert np.allclose(histogram["edges"], edges)
    assert sum(histogram["counts"]) == known.size
    assert abs(np.histogram(known, 10)[0] - histogram["counts"]).max() <= 1  # on an edge rounding decides
    found = trained.get("tensor/next", of="max", **where).json
    assert found["flat"] == known.argmax() and np.float32(found["text"]) == known.max()


def test_a_path_starts_from_a_tensor_and_ends_at_the_loss(trained):
    loss = trained.get("overview").json["loss"][0]

    def stations(name, **query):
        found = check_json(trained, "path", name=name, step=0, **query)
        return [(op["op_name"].rsplit("/", 1)[-1].rsplit("-op", 1)[0], op["op_name"]) for op in found["ops"]], found

    kinds, found = stations(loss["op_name"], side="input", slot=1)
    assert kinds[-1][1] == loss["op_name"] and kinds[-2][0] == "log" and found["ops"][-1]["input_slot"] == 1
    kinds, found = stations(loss["op_name"], side="input", slot=0)
    assert kinds[-2][0] == "mean" and found["ops"][-1]["input_slot"] == 0
    conv = kinds[0][1] if kinds[0][0] == "conv2d" else next(name for kind, name in kinds if kind == "conv2d")
    for query in ({}, {"slot": 0}):
        kinds, found = stations(conv, direction="effect", **query)
        assert (kinds[0][0], kinds[-1][1], found["reaches"]) == ("conv2d", loss["op_name"], "the loss")
    kinds, found = stations(loss["op_name"], direction="effect")
    assert len(kinds) == 1 and found["reaches"] == "the loss"
    assert trained.get("path", name=conv, slot=7).status == 404


def test_one_nan_is_never_averaged_away(trained):
    where = {"name": "Default/log-op0", "step": 1}
    heat = trained.get("tensor/heat", w=1, h=1, **where).json["rows"]
    assert [cell["bad"] for cell in heat] == [1] and heat[0]["mean"] is None


def test_a_part_of_a_file_is_asked_for_by_range(trained):
    path = "api/v1/tensor/file?name=fc.weight"
    whole = trained.ask(path)
    assert whole.status == 200 and whole.headers["Accept-Ranges"] == "bytes"
    for text, part in (
        ("0-9", slice(0, 10)),
        ("120-140", slice(120, 141)),
        ("-5", slice(-5, None)),
        ("200-", slice(200, None)),
    ):
        answer = trained.ask(path, Range=f"bytes={text}")
        assert answer.status == 206 and answer.body == whole.body[part], text
    for text in ("99999-", "99999-18446744073709551615", "18446744073709551615-", "-0"):
        assert trained.ask(path, Range=f"bytes={text}").status == 416, text


def test_a_range_that_ends_behind_the_file_is_cut_and_one_that_is_none_is_as_if_it_was_not_asked_for(trained):
    path = "api/v1/tensor/file?name=fc.weight"
    whole = trained.ask(path).body
    for last in (len(whole) - 1, len(whole), 1 << 32, (1 << 64) - 2, (1 << 64) - 1, 1 << 64, 10**30):
        answer = trained.ask(path, Range=f"bytes=7-{last}")
        assert (answer.status, answer.body) == (206, whole[7:]), last
        assert answer.headers["Content-Range"] == f"bytes 7-{len(whole) - 1}/{len(whole)}"
        answer = trained.ask(path, Range=f"bytes=-{last}")
        assert (answer.status, answer.body) == (206, whole[-min(last, len(whole)) :]), last
    for text in ("9-7", "9-0", "0-1,3-4", "x-5", "5-x", "-", "", "+1-2", " 1-2", "1--2", "-x", "0x1-"):
        answer = trained.ask(path, Range=f"bytes={text}")
        assert (answer.status, answer.body) == (200, whole), text


def test_long_json_is_packed_where_the_reader_accepts_it(trained):
    plain = trained.get("tensors", limit=50)
    packed = trained.ask("api/v1/tensors?limit=50", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip" and len(packed.body) < len(plain.body) / 4
    assert json.loads(gzip.decompress(packed.body)) == plain.json


def test_an_answer_that_the_reader_has_is_not_sent_again(trained):
    first = trained.ask("api/v1/tensors?limit=50", Accept_Encoding="gzip")
    tag = first.headers["ETag"]
    again = trained.ask("api/v1/tensors?limit=50", Accept_Encoding="gzip", If_None_Match=f'"0", {tag}')
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    others = [
        trained.ask("api/v1/tensors?limit=50", Accept_Encoding="gzip", Accept=ARROW, If_None_Match=tag),
        trained.ask("api/v1/tensors?limit=51", Accept_Encoding="gzip", If_None_Match=tag),
        trained.ask("api/v1/tensors?limit=50&dump=1", Accept_Encoding="gzip", If_None_Match=tag),
        trained.ask("api/v1/ops?limit=50", Accept_Encoding="gzip", If_None_Match=tag),
    ]
    assert [answer.status for answer in others] == [200] * 4
    assert len({tag, *(answer.headers["ETag"] for answer in others)}) == 5
    assert trained.ask("api/v1/tensors?limit=x", If_None_Match=tag).headers["ETag"] is None
    trained.job("first-bad")  # its verdict may change a class
    assert trained.ask("api/v1/tensors?limit=50", Accept_Encoding="gzip", If_None_Match=tag).status == 200
    with serving(trained.dump) as other:
        assert other.ask("api/v1/tensors?limit=50", Accept_Encoding="gzip", If_None_Match=tag).status == 200


def test_without_a_page_it_says_how_to_get_it(trained):
    page = urllib.request.urlopen(trained.address)
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    if not trained.get("status").json["has_page"]:
        assert b"Node 20.19" in page.read()
