"""The pairs of dialect, layout and mode that tests/golden/ holds."""

import dataclasses


@dataclasses.dataclass
class Case:
    about: str
    config: dict
    program: str = "train"
    environment: dict = dataclasses.field(default_factory=dict)
    makes_directory: bool = False  # CANN wants the directory to exist


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


CASES = {}
for _version in ("2.0", "2.3", "2.5", "2.7"):
    for _saved in ("tensor", "statistic", "full"):
        CASES[f"mindspore-{_version}-{_saved}"] = Case(
            f"MindSpore {_version}, synchronous, saved_data {_saved}",
            mindspore(_version, saved_data=_saved, iteration="1"),
        )

# The case that shows a layout in docs/format.md.
TREES = {f"mindspore-{version}": f"mindspore-{version}-full" for version in ("2.0", "2.3", "2.5", "2.7")}
