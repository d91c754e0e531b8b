"""Two ranks of a training, as two processes without a launcher; the same program as one process."""

import json
import subprocess
import textwrap

from processes import CLI, Run, clean_environment, python, run_in, settings_of

# The beginning of a program that run_ranks() runs.
DISTRIBUTED = """
    import os, torch
    import torch.distributed as dist
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=os.environ["MEET"], rank=rank, world_size=2)
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def run_ranks(directory, source, **settings):
    """Two processes, without a launcher; what both printed."""
    own = settings.pop("sonde_settings", None)
    dump = directory / "dump"
    (directory / "train.py").write_text(textwrap.dedent(source))
    config = directory / "data_dump.json"
    config.write_text(json.dumps(settings_of(dump, None, own, {"support_device": [0, 1], **settings})))
    common = {"MINDSPORE_DUMP_CONFIG": config, "WORLD_SIZE": 2, "MEET": f"file://{directory / 'meet'}"}
    processes = [
        subprocess.Popen(
            [*python(fresh=False), "train.py"],
            cwd=directory,
            env=clean_environment(RANK=rank, LOCAL_RANK=rank, **common),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        printed = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    out, error = ("".join(texts) for texts in zip(*printed, strict=True))
    status = max(abs(process.returncode) for process in processes)
    return Run(subprocess.CompletedProcess(source, status, out, error), dump)


def run_one(directory, source, saved_data="full", program="alone.py"):
    """The dump of the program as one process, which joins no group."""
    (directory / program).write_text(textwrap.dedent(source).replace("dist.init_process_group", "# "))
    dump = directory / "golden"
    command = [CLI, "run", "--out", dump, "--saved-data", saved_data, "--", *python(fresh=False), program]
    run = run_in(directory, dump, *command, WORLD_SIZE=1, RANK=0, MEET="")
    assert run.status == 0, run.stderr
    return dump


def beside_one(directory, sonde, source, faults, *, saved_data, program="train.py"):
    """For each fault: (fault, its line, `sonde compare` of two ranks with one process, the ranks' dump).

    A fault takes the place of the word FAULT in the program, and the line that it changes ends in `# fault`. The
    healthy ranks are recorded first, and agree with the one process."""
    golden = run_one(directory, source.replace("FAULT", ""), saved_data, program)
    lines = textwrap.dedent(source).splitlines()
    for fault in ("", *faults):
        place = directory / (fault or "healthy")
        place.mkdir()
        ranks = run_ranks(place, source.replace("FAULT", fault), saved_data=saved_data)
        assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
        found = sonde("compare", ranks.dump, golden)
        if fault:
            line = next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {fault}"))
            yield fault, line, found, ranks.dump
        else:
            assert found.status == 0 and "2 ranks are joined" in found.stdout, found.stdout
