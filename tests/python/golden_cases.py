"""The combinations of dialect, layout and mode in tests/golden/."""

import dataclasses


@dataclasses.dataclass
class Case:
    about: str
    config: dict
    program: str = "train"
    environment: dict = dataclasses.field(default_factory=dict)
    makes_directory: bool = False  # CANN requires that the directory exists


def mindspore(version=None, e2e=True, sonde_settings=None, **common):
    """A file of MindSpore 2.x."""
    settings = {
        "dump_mode": 0,
        "path": "@DUMP@",
        "net_name": "Net",
        "iteration": "all",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
        "op_debug_mode": 0,
        **common,
    }
    config = {"common_dump_settings": settings}
    if e2e:
        config["e2e_dump_settings"] = {"enable": True, "trans_flag": True, **(e2e if isinstance(e2e, dict) else {})}
    ours = {**({"version": version} if version else {}), **(sonde_settings or {})}
    if ours:
        config["sonde_settings"] = ours
    return config


def mindspore_1_2(sync=True, asynchronous=False, **common):
    """A file of MindSpore 1.2: a number as iteration, two objects of which one is enabled."""
    settings = {
        "dump_mode": 0,
        "path": "@DUMP@",
        "net_name": "Net",
        "iteration": 1,
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
        **common,
    }
    return {
        "common_dump_settings": settings,
        "async_dump_settings": {"enable": asynchronous, "op_debug_mode": 0},
        "e2e_dump_settings": {"enable": sync, "trans_flag": True},
    }


def acl(*dump_list, sonde_settings=None, **members):
    """An acl.json of CANN."""
    config = {"dump": {"dump_path": "@DUMP@", "dump_mode": "all", "dump_list": list(dump_list), **members}}
    return {**config, "sonde_settings": sonde_settings} if sonde_settings else config


def torchair(**options):
    """TorchAir's options as a file."""
    return {"dump_config": {"enable_dump": True, "dump_path": "@DUMP@", **options}}


def cann(about, config, program="train"):
    return Case(about, config, program, makes_directory=True)


CASES = {}
for _version in ("2.0", "2.3", "2.5", "2.7"):
    for _saved in ("tensor", "statistic", "full"):
        CASES[f"mindspore-{_version}-{_saved}"] = Case(
            f"MindSpore {_version}, synchronous, saved_data {_saved}",
            mindspore(_version, saved_data=_saved, iteration="1"),
        )
    for _format in ("npy", "bin"):
        CASES[f"mindspore-{_version}-async-{_format}"] = Case(
            f"MindSpore {_version}, without e2e_dump_settings, file_format {_format}: the tree of that release",
            mindspore(_version, e2e=False, file_format=_format, iteration="1"),
        )
    CASES[f"mindspore-{_version}-overflow"] = Case(
        f"MindSpore {_version}, synchronous, op_debug_mode 3",
        mindspore(_version, op_debug_mode=3, iteration="1"),
        "overflow",
    )
CASES |= {
    "mindspore-1.0": Case(
        "MindSpore 1.0 and 1.1, DumpSettings",
        {
            "DumpSettings": {
                "enable": True,
                "mode": 0,
                "path": "@DUMP@",
                "net_name": "Net",
                "iteration": 1,
                "kernels": [],
                "trans_flag": True,
            }
        },
    ),
    "mindspore-1.2": Case("MindSpore 1.2, synchronous", mindspore_1_2()),
    "mindspore-1.2-every-step": Case(
        "MindSpore 1.2, iteration 0: every step; one operator",
        mindspore_1_2(iteration=0, dump_mode=1, kernels=["Default/network-Net/conv-Conv2d/conv2d-op0"]),
    ),
    "mindspore-1.2-async": Case("MindSpore 1.2, asynchronous", mindspore_1_2(sync=False, asynchronous=True)),
    "mindspore-1.3": Case("MindSpore 1.3", mindspore("1.3", iteration="1")),
    "mindspore-2.3-ge-o2": Case(
        "MindSpore 2.3, MS_ACL_DUMP_CFG_PATH names the file: o2",
        mindspore("2.3", e2e=False, file_format="npy", iteration="1", saved_data="full"),
        environment={"MS_ACL_DUMP_CFG_PATH": "@CONFIG@"},
    ),
    "mindspore-2.5-o2-ge": Case(
        "MindSpore 2.5, ENABLE_MS_GE_DUMP=1: ge",
        mindspore("2.5", e2e=False, file_format="bin", iteration="1"),
        environment={"ENABLE_MS_GE_DUMP": "1"},
    ),
    "mindspore-2.5-o2-statistic": Case(
        "MindSpore 2.5, o2, statistics",
        mindspore("2.5", e2e=False, file_format="npy", iteration="1", saved_data="statistic"),
    ),
    "mindspore-2.5-o2-overflow-npy": Case(
        "MindSpore 2.5, o2, op_debug_mode 3, npy: the record as JSON",
        mindspore("2.5", e2e=False, file_format="npy", iteration="1", op_debug_mode=3),
        "overflow",
    ),
    "mindspore-2.5-o2-overflow-bin": Case(
        "MindSpore 2.5, o2, op_debug_mode 3, bin: the record as a container",
        mindspore("2.5", e2e=False, file_format="bin", iteration="1", op_debug_mode=3),
        "overflow",
    ),
    "mindspore-2.0-async-overflow": Case(
        "MindSpore 2.0, asynchronous, op_debug_mode 3",
        mindspore("2.0", e2e=False, file_format="bin", iteration="1", op_debug_mode=3),
        "overflow",
    ),
    "mindspore-2.7-bin": Case(
        "MindSpore 2.7, enable false, file_format bin",
        mindspore(e2e={"enable": False}, file_format="bin", iteration="1"),
    ),
    "mindspore-2.7-no-version": Case(
        "no e2e_dump_settings, no version: rank_N, npy", mindspore(e2e=False, iteration="1")
    ),
    "mindspore-2.7-overflow-full": Case(
        "op_debug_mode 3, tensors and statistics", mindspore(op_debug_mode=3, saved_data="full"), "overflow"
    ),
    "mindspore-2.7-overflow-number": Case(
        "op_debug_mode 3, overflow_number 1", mindspore(op_debug_mode=3, overflow_number=1), "overflow"
    ),
    "mindspore-2.7-overflow-nothing": Case("op_debug_mode 3, nothing overflows", mindspore(op_debug_mode=3)),
    "mindspore-2.7-exception": Case("op_debug_mode 4", mindspore(op_debug_mode=4), "exception"),
    "mindspore-2.7-set-dump": Case("dump_mode 2, one module flagged", mindspore(dump_mode=2, iteration="1"), "flagged"),
    "mindspore-2.7-kernels": Case(
        "dump_mode 1, MindSpore's name of a type", mindspore(dump_mode=1, kernels=["Conv2D"], iteration="1")
    ),
    "mindspore-2.7-inputs": Case(
        "input_output 1, one type", mindspore(dump_mode=1, kernels=["relu"], input_output=1, iteration="1")
    ),
    "mindspore-2.7-outputs": Case(
        "input_output 2, one type", mindspore(dump_mode=1, kernels=["relu"], input_output=2, iteration="1")
    ),
    "mindspore-2.7-sample": Case(
        "sample_mode 1, 3 elements",
        mindspore(e2e={"sample_mode": 1, "sample_num": 3}, saved_data="full", iteration="1"),
    ),
    "mindspore-2.7-channels-last": Case(
        "trans_flag false, a channels-last network",
        mindspore(e2e={"trans_flag": False}, dump_mode=1, kernels=["conv2d"], saved_data="full", iteration="1"),
        "channels_last",
    ),
    "mindspore-2.7-kernel-args": Case(
        "save_kernel_args", mindspore(e2e={"save_kernel_args": True}, dump_mode=1, kernels=["conv2d"], iteration="1")
    ),
    "mindspore-2.7-low-precision": Case(
        "stat_calc_mode device, device_stat_precision_mode low",
        mindspore(
            e2e={"stat_calc_mode": "device", "device_stat_precision_mode": "low"},
            saved_data="statistic",
            statistic_category=["max", "min", "avg", "l2norm"],
            iteration="1",
        ),
    ),
    "mindspore-2.7-initial-iteration": Case(
        "initial_iteration 7", mindspore(dump_mode=1, kernels=["relu"], initial_iteration=7, iteration="8")
    ),
    "graph-only": Case("names and graphs, no data", mindspore(sonde_settings={"saved_data": "graph"}, iteration="1")),
    "acl-model": cann("acl.json: one model", acl({"model_name": "Net"}, dump_step="1")),
    "acl-all-models": cann("acl.json: all models, outputs by default", acl({}, dump_step="1", dump_mode="output")),
    "acl-layer": cann("acl.json: one layer", acl({"layer": ["Conv2D"]}, dump_step="1")),
    "acl-range": cann(
        "acl.json: from one operator to another",
        acl(
            {
                "model_name": "Net",
                "opname_range": [
                    {
                        "begin": "Default/network-Net/conv-Conv2d/conv2d-op0",
                        "end": "Default/network-Net/relu-op0",
                    }
                ],
            },
            dump_step="1",
            dump_level="op",
        ),
    ),
    "acl-blacklist": cann(
        "acl.json: without the inputs of a type",
        acl(
            {"optype_blacklist": [{"name": "conv2d", "pos": ["input0", "input2"]}], "layer": ["conv2d"]},
            dump_step="1",
            dump_level="op",
        ),
    ),
    "acl-single-op": cann("acl.json: single operators", acl(dump_op_switch="on", dump_step="1")),
    "acl-overflow": cann("acl.json: dump_debug", {"dump": {"dump_path": "@DUMP@", "dump_debug": "on"}}, "overflow"),
    "acl-stats": cann("acl.json: statistics", acl({}, dump_data="stats", dump_step="1")),
    "acl-stats-chosen": cann(
        "acl.json: chosen statistics", acl({}, dump_data="stats", dump_stats=["L2norm", "Max", "Nan"], dump_step="1")
    ),
    "acl-stats-quirks": cann(
        "acl.json: chosen statistics, with CANN's slips",
        acl({}, dump_data="stats", dump_stats=["L2norm", "Max"], dump_step="1", sonde_settings={"acl_quirks": True}),
    ),
    "acl-watcher": cann(
        "acl.json: watcher",
        acl(
            {"layer": ["relu", "sum"], "watcher_nodes": ["conv2d"]},
            dump_mode="output",
            dump_scene="watcher",
            dump_step="1",
        ),
    ),
    "acl-exception-brief": cann(
        "acl.json: lite_exception",
        {"dump": {"dump_path": "@DUMP@", "dump_scene": "lite_exception"}},
        "exception",
    ),
    "acl-exception-norm": cann(
        "acl.json: aic_err_norm_dump",
        {"dump": {"dump_path": "@DUMP@", "dump_scene": "aic_err_norm_dump"}},
        "exception",
    ),
    "acl-nothing": cann("acl.json: nothing to dump", acl()),
    "torchair-all": cann("TorchAir: everything", torchair(dump_step="1")),
    "torchair-layer": cann("TorchAir: one layer, by GE's name of a type", torchair(dump_layer=" Relu ", dump_step="1")),
    "torchair-stats": cann("TorchAir: statistics of outputs", torchair(dump_data="stats", dump_mode="output")),
}

# The case that shows a layout in docs/format.md.
TREES = {
    "mindspore-1.2": "mindspore-1.2",
    "mindspore-1.2-async": "mindspore-1.2-async",
    **{f"mindspore-{version}": f"mindspore-{version}-full" for version in ("2.0", "2.3", "2.5", "2.7")},
    "ge": "mindspore-2.5-o2-ge",
    "o2": "mindspore-2.3-ge-o2",
    "acl": "acl-model",
    "torchair": "torchair-all",
}
