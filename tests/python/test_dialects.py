"""Configurations of every system that a user may come from, run as that system's users would run them."""

import json
import re
import textwrap

import dumps
import pytest
import text_protobuf
from conftest import SMALL_TRAINING

from sonde import torchair

CONV = "Default/network-Small/conv-Conv2d/conv2d-op0"
ARRANGED = {"sonde_settings": {"layout": "mindspore-2.7"}}  # so that dumps.py can read it


@pytest.fixture
def configuration(tmp_path):
    """configuration(content): writes a file of any dialect and returns its path."""

    def write(content, name="acl.json"):
        path = tmp_path / name
        path.write_text(json.dumps(content))
        return path

    return write


@pytest.fixture
def recorded(train, dump, configuration):
    """recorded(content): trains under it; {operator or parameter: its slots} of step 0, and the run."""

    def run(content, source=None, **environment):
        dump.mkdir(exist_ok=True)
        arguments = {"source": source} if source else {}
        run = train(config=configuration({**ARRANGED, **content}), **arguments, **environment)
        assert run.status == 0, run.stderr
        slots = {}
        for row in dumps.statistics(dump):
            slots.setdefault(row["Op Name"], set()).add(f"{row['IO']}{row['Slot']}")
        return slots, run

    return run


def acl(dump, **members):
    return {"dump": {"dump_path": str(dump), "dump_data": "stats", "dump_step": "0", **members}}


def operators(slots):
    return {name for name in slots if "-op" in name}


def test_single_operators_without_a_list_are_all_operators(recorded, dump):
    slots, run = recorded(acl(dump, dump_op_switch="on", dump_mode="all"))
    assert operators(slots) == set(dumps.execution_order(dump))
    assert slots[CONV] == {"input0", "input1", "input2", "output0"}
    assert dumps.steps(dump) == [0]
    assert len(run.sonde_lines) == 1


def test_a_model_is_its_module_and_not_what_runs_outside(recorded, dump):
    slots, _ = recorded(acl(dump, dump_list=[{"model_name": "Small"}]))
    assert all("network-Small" in name for name in operators(slots))
    assert slots[CONV] == {"output0"}
    assert {"conv.weight", "fc.bias"} <= set(slots)  # inputs of the selected operators


def test_a_model_that_does_not_run_leaves_nothing_and_is_named(train, dump, configuration):
    dump.mkdir()
    run = train(config=configuration(acl(dump, dump_list=[{"model_name": "Other"}])))
    assert run.status == 0
    assert "nothing was recorded: none of the " in run.stderr and "matched dump_list" in run.stderr
    assert "dump_list[0].model_name entry 'Other' matched nothing; nearest: network-Small" in run.stderr
    assert list(dump.iterdir()) == []


def test_outside_the_models_the_switch_decides(recorded, dump):
    slots, _ = recorded(acl(dump, dump_list=[{"model_name": "Other"}], dump_op_switch="on"))
    assert operators(slots)
    assert not any("network-Small" in name for name in operators(slots))


def test_layers_are_names_or_types_of_any_system(recorded, dump):
    layer = ["Default/network-Small/conv-Conv2d/conv2d-op0", "MatMul", "Nothing"]
    slots, run = recorded(acl(dump, dump_list=[{"layer": layer}]))
    assert {name.rpartition("/")[2] for name in operators(slots)} >= {"conv2d-op0", "linear-op0"}
    assert not any("relu" in name for name in slots)
    assert not any(name.startswith("norm") for name in slots)  # parameters of operators that are not selected
    assert any("dump_list[0].layer entry 'Nothing' matched nothing" in line for line in run.sonde_lines)


@pytest.mark.parametrize("layer", [["data-0"], ["conv.weight", "data-0"], ["conv_weight"], ["Data"]])
def test_nodes_of_the_type_data_are_layers_like_others(recorded, dump, layer):
    """Parameters and data, which no selected operator reads."""
    named = [name.replace("_", ".") for name in layer if name != "Data"]
    slots, run = recorded(acl(dump, dump_list=[{"layer": layer}], dump_mode="all"))
    names = set(slots)
    assert names == set(named) if named else names > {"data-0", "conv.weight", "conv.bias"}
    assert operators(slots) == set()
    assert len(run.sonde_lines) == 1, run.stderr


def test_data_of_another_model_are_not_recorded(train, dump, configuration):
    dump.mkdir()
    run = train(config=configuration(acl(dump, dump_list=[{"model_name": "Other", "layer": ["data-0"]}])))
    assert "dump_list[0].model_name entry 'Other' matched nothing" in run.stderr
    assert not list(dump.rglob("*.csv"))


def test_a_range_is_followed_in_each_step_and_slots_are_taken_out(recorded, dump):
    entry = {
        "model_name": "Small",
        "opname_range": [{"begin": "Default/network-Small/conv-Conv2d/conv2d-op0", "end": "ReLU"}],
        "optype_blacklist": [{"name": "Conv2D", "pos": ["input1", "output0"]}],
    }
    slots, _ = recorded(acl(dump, dump_list=[entry], dump_level="op", dump_mode="all", dump_step="0-1"))
    names = [name.rpartition("/")[2] for name in slots if "-op" in name]
    assert names[0] == "conv2d-op0"
    assert names[-1] == "relu-op0"
    assert not any("linear" in name for name in names)
    assert slots[CONV] == {"input0", "input2"}
    assert operators(slots) == {row["Op Name"] for row in dumps.statistics(dump, 1) if "-op" in row["Op Name"]}


def test_what_asks_for_nothing_records_nothing_and_says_why(train, configuration, tmp_path):
    run = train(config=configuration({"dump": {"dump_path": str(tmp_path)}}))
    assert "trained" in run.stdout
    assert "nothing was recorded: dump_list is empty" in run.stderr


def test_a_refusal_has_canns_words_and_code(train, configuration, tmp_path):
    path = configuration({"dump": {"dump_path": str(tmp_path), "dump_mode": "both"}})
    run = train(config=path)
    assert "trained" in run.stdout
    assert (
        f"EP0002: Value both for configuration item dump_mode in configuration file {path} is invalid. "
        "Expected value: all/input/output." in run.stderr
    )


def mindspore_1_2(dump, **common):
    return {
        "common_dump_settings": {
            "dump_mode": 0,
            "path": str(dump),
            "net_name": "Net",
            "iteration": 0,
            "input_output": 0,
            "kernels": [],
            "support_device": [0],
            **common,
        },
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
        "async_dump_settings": {"enable": False, "op_debug_mode": 0},
    }


def test_mindspore_1_2_takes_iteration_zero_for_every_step_and_full_names_only(train, configuration, dump):
    kernels = ["Default/network-Small/conv-Conv2d/conv2d-op0", "relu"]
    content = mindspore_1_2(dump, dump_mode=1, kernels=kernels)
    run = train(config=configuration({**ARRANGED, **content}))
    assert dumps.steps(dump) == [0, 1, 2]
    assert {name for name, _, _ in dumps.tensors(dump)} == {CONV.replace("/", "_")}
    assert "MindSpore 1.2 reads it as a full name" in run.stderr
    assert "kernels entry 'relu' matched nothing" in run.stderr


def test_mindspore_1_2_takes_another_iteration_for_one_step(train, configuration, dump):
    train(config=configuration({**ARRANGED, **mindspore_1_2(dump, iteration=2)}))
    assert dumps.steps(dump) == [2]


COLLECTIVE = """
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    network = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        network(torch.ones(2, 3)).sum().backward()
        total = network.weight.grad * 2
        dist.all_reduce(total)
        optimizer.step()
    print("trained")
"""


def test_what_feeds_a_selected_collective_is_recorded_from_the_next_step_on(train, configuration, dump):
    common = mindspore_1_2(dump, dump_mode=1, kernels=["allreduce_"], iteration="all")["common_dump_settings"]
    content = {
        "common_dump_settings": {**common, "file_format": "npy"},
        "sonde_settings": {"version": "2.3", "layout": "mindspore-2.3"},
    }
    run = train(COLLECTIVE, config=configuration(content))
    assert "trained" in run.stdout

    def types(step):
        directory = dumps.step_directory(dump, step)
        return {path.name.partition(".")[0] for path in directory.glob("*.npy")} - {"Parameter"}

    assert types(0) == {"allreduce_"}
    assert types(1) == {"allreduce_", "mul"}


def test_the_tree_of_an_asynchronous_dump_follows_the_environment(sonde, config, tmp_path):
    path = config()
    content = json.loads(path.read_text())
    del content["e2e_dump_settings"]
    path.write_text(json.dumps(content))

    def layout(**environment):
        shown = sonde("check", path, **environment)
        return shown.stdout.partition("  layout ")[2].partition(",")[0]

    assert layout() == "mindspore-2.7"
    assert layout(ENABLE_MS_GE_DUMP="1") == "ge"
    assert layout(MS_ACL_DUMP_CFG_PATH=path) == "o2"
    assert layout(MS_ACL_DUMP_CFG_PATH=tmp_path / "other.json") == "mindspore-2.7"


@pytest.mark.parametrize(("level", "lines"), [("0", 0), ("1", 1), ("2", 2), (None, 2)])
def test_the_graph_shows_as_much_of_the_source_as_is_asked_for(train, config, dump, level, lines):
    source = """
        import torch

        def double(x):
            return x * 2

        network = torch.nn.Linear(2, 2)
        double(network(torch.ones(1, 2)))
    """
    environment = {} if level is None else {"ENV_DUMP_IR_LINE_LEVEL": level}
    train(source, config=config(), **environment)
    ir = (dump / "rank_0" / "graphs" / "ms_output_trace_code_graph_0.ir").read_text()
    of_mul = ir[ir.index("mul-op0") :].partition("\n  %")[0]
    assert of_mul.count("# In file") == lines
    if lines:
        assert "return x * 2" in of_mul


# --- a switch without a configuration ---------------------------------------------------------------------------------


def test_graphs_alone_are_written_for_mindspores_switch(train, tmp_path):
    run = train(MS_DEV_SAVE_GRAPHS="2")
    assert run.status == 0
    rank = tmp_path / "rank_0"
    graph = rank / "graphs" / "ms_output_trace_code_graph_0.ir"
    assert (rank / "trace_code_graph_0.ir").read_text() == graph.read_text()
    assert "Default/network-Small/conv-Conv2d/conv2d-op0" in dumps.execution_order(tmp_path)
    assert not list(rank.rglob("*.npy"))
    assert not list(rank.rglob("statistic.csv"))
    assert "trained" in run.stdout


def test_graphs_alone_are_written_where_ges_switch_says(train, tmp_path):
    place = tmp_path / "graphs"
    run = train(DUMP_GE_GRAPH="2", DUMP_GRAPH_LEVEL="3", DUMP_GRAPH_PATH=place)
    (own,) = place.iterdir()
    assert own.name.startswith("pid_")
    assert own.name.endswith("_deviceid_0")
    assert "Default/network-Small/conv-Conv2d/conv2d-op0" in dumps.execution_order(own)
    assert len(run.sonde_lines) == 1
    model = text_protobuf.parse((own / "ge_proto_00000000_graph_1_Build.txt").read_text())
    ops = {op["name"][0]: op for op in model["graph"][0]["op"]}
    conv = ops["Default/network-Small/conv-Conv2d/conv2d-op0"]
    assert conv["type"] == ["conv2d"]
    assert conv["input"] == ["data-0:0", "conv.weight:0", "conv.bias:0"]
    assert conv["output_desc"][0]["shape"] == [{"dim": [2, 4, 6, 6]}]
    assert {one["key"][0]: one["value"][0] for one in conv["attr"]}["stride"]["list"][0]["i"] == [1, 1]
    assert ops["conv.weight"]["type"] == ["Data"]
    assert ops["Default/network-Small/norm-BatchNorm2d/batch_norm-op0"]["input"][0].endswith("conv2d-op0:0")


def test_ge_has_a_readable_form_too(train, tmp_path):
    place = tmp_path / "graphs"
    run = train(DUMP_GE_GRAPH="1", DUMP_GRAPH_FORMAT="Readable|ge_proto", DUMP_GRAPH_PATH=place)
    assert run.status == 0
    (own,) = place.iterdir()
    assert not list(own.glob("ge_onnx_*"))
    lines = (own / "ge_readable_00000000_graph_1_Build.txt").read_text().splitlines()
    assert lines[0] == 'graph("graph_1"):'
    node = re.compile(r"  %\w+ : \[#users=\d+\] = (Node\[type=\w+\] \(.*\)|get_element\[node=%\w+\]\(\d+\))")
    assert all(node.fullmatch(line) for line in lines[1:-2])
    assert any("= Node[type=conv2d] (inputs = (x0=%data_0_0, x1=%conv_weight_1, x2=" in line for line in lines)
    assert lines[-2] == "" and lines[-1].startswith("  return (output_0=%")


def test_a_form_of_graphs_that_there_is_not_is_refused_in_one_line(train):
    run = train(DUMP_GE_GRAPH="1", DUMP_GRAPH_FORMAT="pdf")
    assert "trained" in run.stdout
    assert run.stderr.count("\n") == 1
    assert "DUMP_GRAPH_FORMAT 'pdf' names no form; allowed: ge_proto, onnx, readable, joined by |" in run.stderr


def test_a_recording_that_the_program_starts_takes_the_place_of_a_switchs(train, config, dump, tmp_path):
    head, _, rest = textwrap.dedent(SMALL_TRAINING).partition("import torch\n")
    source = f"import torch, sonde\nsonde.start({str(config())!r})\n" + head + rest
    run = train(source, DUMP_GE_GRAPH="2", DUMP_GRAPH_PATH=tmp_path / "graphs")
    assert run.status == 0, run.stderr
    assert dumps.steps(dump) == [0, 1, 2]
    assert "the recording that a variable has begun ends: the program starts one itself" in run.stderr
    (own,) = (tmp_path / "graphs").iterdir()  # the graph of the program's own recording, in GE's forms only
    assert {path.name for path in own.iterdir()} == {
        "ge_proto_00000000_graph_1_Build.txt",
        "ge_onnx_00000000_graph_1_Build.pbtxt",
    }


@pytest.mark.parametrize(
    "environment",
    [
        {"MS_DEV_SAVE_GRAPHS": "0"},
        {"DUMP_GE_GRAPH": "0"},
        {"DUMP_GE_GRAPH": ""},
        {"DUMP_GRAPH_LEVEL": "1", "DUMP_GRAPH_PATH": "/tmp"},
        {"ASCEND_DUMP_SCENE": "watcher"},
    ],
)
def test_a_switch_that_is_off_starts_nothing(train, tmp_path, environment):
    before = set(tmp_path.iterdir())
    run = train(**environment)
    assert run.stderr == ""
    assert {path.name for path in set(tmp_path.iterdir()) - before} == {"train.py"}


def test_a_stage_that_there_is_not_is_refused_in_one_line(train, tmp_path):
    run = train(DUMP_GE_GRAPH="1", DUMP_GRAPH_LEVEL="AfterInfershape|Partition")
    assert "trained" in run.stdout
    assert run.stderr.count("\n") == 1
    assert "DUMP_GRAPH_LEVEL 'AfterInfershape|Partition' names no stage" in run.stderr


# --- TorchAir --------------------------------------------------------------------------------------------------------


def test_options_have_torchairs_defaults():
    options = torchair.CompilerConfig().dump_config
    assert [(name, getattr(options, name)) for name in ("enable_dump", "dump_path", "dump_mode", "quant_dumpable")] == [
        ("enable_dump", False),
        ("dump_path", "./"),
        ("dump_mode", "all"),
        ("quant_dumpable", False),
    ]
    assert (options.dump_step, options.dump_layer, options.dump_data) == ("", "", "tensor")
    assert (options.dump_config_path, options.data_dump_stage) == (None, "optimized")
    assert torchair.CompilerConfig().mode == "max-autotune"


ALL_OPTIONS = (
    "['enable_dump', 'dump_path', 'dump_mode', 'quant_dumpable', 'dump_step', 'dump_layer', 'dump_data', "
    "'dump_config_path', 'data_dump_stage']"
)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("dump_mod", "all", ValueError(f"_DataDumpConfig has no option dump_mod, all options {ALL_OPTIONS}")),
        (
            "enable_dump",
            1,
            ValueError("Value 1 (type: <class 'int'>) not in optional list [False, True] (type: <class 'bool'>)."),
        ),
        (
            "dump_mode",
            "both",
            ValueError(
                "Value 'both' (type: <class 'str'>) not in optional list ['input', 'output', 'all'] "
                "(type: <class 'str'>)."
            ),
        ),
        (
            "dump_layer",
            "Add|",
            ValueError(
                r"""Please set legal regex value format match ^[0-9a-zA-Z_" "/\\.-]*$, Add| is Illegal format, """
                "correct example:Mul_1 Add1 Conv2D_1."
            ),
        ),
        (
            "dump_path",
            "/no/such",
            FileNotFoundError("Please set legal dir path, /no/such is not found or is not a file directory!"),
        ),
        ("dump_config_path", "", ValueError("File path cannot be empty!")),
        (
            "dump_config_path",
            "/etc/passwd",
            FileNotFoundError("Please set legal file path, /etc/passwd is not found or is not '.json' file!"),
        ),
    ],
)
def test_a_wrong_option_raises_where_it_is_set_as_in_a_file(sonde, configuration, name, value, error):
    config = torchair.CompilerConfig()
    with pytest.raises(type(error)) as caught:
        setattr(config.dump_config, name, value)
    assert str(caught.value) == str(error)
    checked = sonde("check", configuration({"dump_config": {name: value}}))
    assert f"dump_config.{name}: {type(error).__name__}: {error}" in checked.stderr


@pytest.mark.parametrize("step", ["0ad", "0|2&", "--", "1-", "-1", "02||||34", "1--", "1--6", 3])
def test_a_step_of_another_form_is_refused(step):
    with pytest.raises(ValueError, match="Please set legal regex value format match"):
        torchair.CompilerConfig().dump_config.dump_step = step


@pytest.mark.parametrize("step", ["0", "12", "02|3|4", "0-1", "0|1|2-5|6"])
def test_a_step_of_that_form_is_taken(step):
    config = torchair.CompilerConfig()
    config.dump_config.dump_step = step
    assert config.configuration() == {"dump_config": {"dump_step": step}}


def test_unknown_parts_of_the_configuration_are_refused():
    config = torchair.CompilerConfig()
    with pytest.raises(ValueError, match="CompilerConfig has no option debugg"):
        config.debugg = 1
    with pytest.raises(ValueError, match="not in optional list"):
        config.mode = "fast"


def test_a_script_with_torchairs_options_records_layers_and_scopes(train, dump, sonde):
    dump.mkdir()
    source = f"""
        import torch
        from sonde import torchair

        config = torchair.CompilerConfig()
        config.dump_config.enable_dump = True
        config.dump_config.dump_path = "{dump}"
        config.dump_config.dump_mode = "output"
        config.dump_config.dump_layer = " Add "
        config.dump_config.dump_step = "0"
        config.start()

        network = torch.nn.Linear(2, 2)
        for _ in range(2):
            x = network(torch.ones(1, 2))
            y = x + 1
            with torchair.scope.data_dump():
                z = y - x
            w = z * 3
        print("trained")
    """
    run = train(source)
    assert "trained" in run.stdout
    assert "worldsize1_global_rank0" in run.stderr
    rows = [json.loads(line) for line in sonde("ls", dump, "--ops", "--jsonl").stdout.splitlines()]
    assert rows
    files = [path.name for path in dump.rglob("*") if path.is_file() and path.name.startswith(("add.", "sub.", "mul."))]
    assert {name.partition(".")[0] for name in files} == {"add", "sub"}
