"""TorchAir's CompilerConfig: every option, with its default and the words of its check."""

import copy
import logging
import pickle

import pytest

from sonde import session, torchair
from sonde.errors import Error
from sonde.torchair import log, notices
from sonde.torchair.npugraph_ex import with_options

DEFAULTS = {
    "mode": "max-autotune",
    "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None,
    "debug.run_eagerly": False,
    "debug.deadlock_check": False,
    "debug.graph_dump.type": None,
    "debug.graph_dump.path": None,
    "debug.data_dump.type": None,
    "debug.data_dump.filter": None,
    "debug.data_dump.path": None,
    "debug.fx_summary.type": None,
    "debug.fx_summary.skip_compile": True,
    "debug.aclgraph.disable_reinplace_inplaceable_ops_pass": False,
    "debug.aclgraph.disable_reinplace_input_mutated_ops_pass": False,
    "debug.aclgraph.disable_mempool_reuse_in_same_fx": False,
    "debug.aclgraph.enable_output_clone": False,
    "debug.aclgraph.static_capture_size_limit": 64,
    "debug.aclgraph.clone_input": True,
    "debug.aclgraph.remove_cat_ops": True,
    "aoe_config.aoe_mode": None,
    "aoe_config.work_path": "./",
    "export.export_mode": False,
    "export.export_path_dir": "./",
    "export.experimental.enable_lite_export": False,
    "fusion_config.fusion_switch_file": None,
    "experimental_config.topology_sorting_strategy": "DFS",
    "experimental_config.static_model_ops_lower_limit": None,
    "experimental_config.keep_inference_input_mutations": True,
    "experimental_config.aclgraph._super_kernel_optimize": False,
    "inference_config.dynamic_gears_merge_policy": "zip",
    "ge_config.oo_level": "O3",
    "ge_config.oo_constant_folding": None,
    "ge_config.export_compile_stat": "2",
    "aclgraph_config.use_custom_pool": None,
    "npugraphex_config.data_dump_dir": "./",
}


def part_of(config, path):
    *parts, name = path.split(".")
    for one in parts:
        config = getattr(config, one)
    return config, name


@pytest.mark.parametrize(("path", "default"), DEFAULTS.items())
def test_an_option_has_torchairs_default(path, default):
    assert getattr(*part_of(torchair.CompilerConfig(), path)) == default


@pytest.mark.parametrize(
    ("path", "value", "kind", "message"),
    [
        ("debug.graph_dump.type", "pdf", ValueError, "Value 'pdf' (type: <class 'str'>) not in optional list "
         "['txt', 'pbtxt', 'py'] (type: <class 'str'>)."),
        ("debug.data_dump.type", "pt", ValueError, "Value 'pt' (type: <class 'str'>) not in optional list ['npy'] "
         "(type: <class 'str'>)."),
        ("debug.data_dump.filter", "add", TypeError, "value must be Callable or None, got <class 'str'>"),
        ("debug.graph_dump.path", 3, TypeError, "expected str, bytes or os.PathLike object, not int"),
        ("debug.fx_summary.type", "json", ValueError, "Value 'json' (type: <class 'str'>) not in optional list ['csv'] "
         "(type: <class 'str'>)."),
        ("debug.run_eagerly", "yes", ValueError, "Value 'yes' (type: <class 'str'>) not in optional list "
         "[True, False] (type: <class 'bool'>)."),
        ("debug.aclgraph.static_capture_size_limit", "64", ValueError,
         "Please set integer type, but got <class 'str'>"),
        ("debug.aclgraph.static_capture_size_limit", 0, ValueError,
         "Please set value in [1, 9223372036854775807], 0 is out of range."),
        ("fusion_config.fusion_switch_file", "/no/such", FileNotFoundError,
         "Please set legal file path, /no/such is not found or is not a file!"),
        ("aoe_config.work_path", "/no/such", FileNotFoundError,
         "Please set legal dir path, /no/such is not found or is not a file directory!"),
        ("export.export_path_dir", None, FileNotFoundError,
         "Please set legal dir path, None is not found or is not a file directory!"),
        ("experimental_config.topology_sorting_strategy", "AFS", ValueError, "Value 'AFS' (type: <class 'str'>) not in "
         "optional list ['BFS', 'DFS', 'RDFS', 'StableRDFS'] (type: <class 'str'>)."),
        ("experimental_config.aclgraph._super_kernel_optimize_options", [], TypeError,
         "value must be dict or None, got <class 'list'>"),
        ("post_grad_custom_pre_pass", 1, TypeError, "value must be Callable or None, got <class 'int'>"),
        ("debug.graph_dump.format", "txt", ValueError, "_Dump has no option format, all options ['type', 'path']"),
        ("debug.data_dump", {"type": "npy"}, ValueError, "data_dump is a _DataDump, not a dict"),
    ],
)  # fmt: skip
def test_a_wrong_value_raises_with_torchairs_words(path, value, kind, message):
    part, name = part_of(torchair.CompilerConfig(), path)
    with pytest.raises(kind) as caught:
        setattr(part, name, value)
    assert str(caught.value) == message


def test_an_option_that_there_is_not_cannot_be_read():
    with pytest.raises(
        ValueError, match=r"_DebugConfig has no option graphdump, all options \['graph_dump', 'data_dump"
    ):
        _ = torchair.CompilerConfig().debug.graphdump


def test_a_configuration_can_be_copied_and_compared(tmp_path):
    config = torchair.CompilerConfig()
    config.debug.graph_dump.path = tmp_path / "x" / ".."
    config.ge_config.oo_level = "O1"
    assert config.debug.graph_dump.path == str(tmp_path)
    for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert other == config
        other.debug.run_eagerly = True
        assert other != config
        assert config.debug.run_eagerly is False


def test_options_of_torch_compile_are_those_of_npugraph_ex(tmp_path):
    config = torchair.CompilerConfig()
    options = {"dump_tensor_data": True, "data_dump_dir": str(tmp_path), "inplace_pass": False}
    changed = with_options(config, options)
    assert changed.values() == {
        "dump_config.enable_dump": True,
        "dump_config.dump_path": str(tmp_path),
        "debug.aclgraph.disable_reinplace_inplaceable_ops_pass": True,
    }
    assert config.values() == {}
    with pytest.raises(ValueError, match="Invalid option 'dump', allowed options: \\['capture_limit', 'clone_input'"):
        with_options(config, {"dump": True})


def test_options_without_effect_are_named_once(capfd):
    notices._named.clear()
    config = torchair.CompilerConfig()
    config.ge_config.oo_level = "O1"
    config.ge_config.enable_single_stream = False  # the default
    config.debug.graph_dump.type = "py"
    config.fusion_config.fusion_switch_file = __file__
    for _ in range(2):
        notices.name_options_without_effect(config)
    assert capfd.readouterr().err.splitlines() == [
        "sonde: torchair: no effect: fusion_config.fusion_switch_file: every node is recorded, fused or not",
        "sonde: torchair: no effect: ge_config.oo_level: they configure Ascend's compiler, which does not run",
    ]


def test_other_calls_of_torchair_are_accepted_or_refused_with_the_reason(capfd):
    notices._named.clear()
    torchair.use_internal_format_weight(None)
    torchair.patch_for_hcom()
    assert torchair.register_fx_node_ge_converter("add")(len) is len
    torchair.inference.set_dim_gears(None, {0: [1, 2]})
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[0] == (
        "sonde: torchair: use_internal_format_weight has no effect: weights keep their layout on the CPU"
    )
    with pytest.raises(Error, match="dynamo_export writes a model for Ascend"):
        torchair.dynamo_export(None)
    with pytest.raises(AttributeError, match=r"torchair\.ops is not available in Sonde"):
        _ = torchair.ops


def test_an_eager_dump_takes_the_place_of_a_recording(tmp_path, capfd):
    notices._named.clear()
    config = torchair.CompilerConfig()
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = str(tmp_path)
    config.debug.data_dump.type = "npy"
    torchair._start_recording(config)
    assert capfd.readouterr().err == "sonde: torchair: dump_config has no effect beside debug.data_dump\n"
    assert not session.running()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compiler_config": {"mode": "max-autotune"}}, "compiler_config is a torchair.CompilerConfig, not a dict"),
        ({"aot_config": True}, "aot_config is a torchair.AotConfig, not a bool"),
        ({"custom_decompositions": [len]}, "custom_decompositions is a dictionary, not a list"),
    ],
)
def test_a_backend_of_something_else_is_refused(arguments, message):
    with pytest.raises(TypeError) as caught:
        torchair.get_npu_backend(**arguments)
    assert str(caught.value) == message


def test_the_logger_writes_as_torchairs_does(capsys):
    logger = torchair.logger
    assert logger.level == logging.ERROR
    logger.info("nothing")
    logger.setLevel(logging.DEBUG)
    try:
        logger.debug("  graph: %s", 7)
        logger.event("here")
        logger.warning_once("again")
        logger.warning_once("again")
    finally:
        logger.setLevel(logging.ERROR)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["7", "here", "again"]
    assert lines[0].startswith("[DEBUG] TORCHAIR(")
    assert lines[1].startswith("[EVENT] ") and log.EVENT_LEVEL == 35
    assert "[test_torchair.py:" in lines[0]
