"""MD5 and SHA-1 in statistic.csv, beside hashlib over the files of the same training."""

import collections
import csv
import hashlib
import signal
import subprocess
import sys
import textwrap
import time

import dumps
import numpy as np
import pytest

# Tensors of a few bytes, of more than one slice of SHA-1, and of several hundred KB; equal ones in many slots.
TRAINING = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(300, 700), nn.Tanh(), nn.Linear(700, 300), nn.LayerNorm(300), nn.Linear(300, 3))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    for step in range({steps}):
        optimizer.zero_grad()
        data = torch.randn(64, 300)
        loss = network(data).square().mean() + network(data.t().contiguous().t()).mean()
        loss.backward()
        optimizer.step()
        {after}
    print("trained", loss.item())
"""
HASHES = {"statistic_category": ["max", "md5", "hash:sha1"]}
SLICE = 20480


def training(steps=2, after="pass"):
    return textwrap.dedent(TRAINING).format(steps=steps, after=after)


def md5(array):
    return hashlib.md5(np.ascontiguousarray(array).tobytes()).hexdigest()


def sha1(array):
    data = np.ascontiguousarray(array)
    if data.size <= SLICE:
        return hashlib.sha1(data.tobytes()).hexdigest()
    flat = data.reshape(-1)
    texts = "".join(hashlib.sha1(flat[at : at + SLICE].tobytes()).hexdigest() for at in range(0, flat.size, SLICE))
    return hashlib.sha1(texts.encode()).hexdigest()


def hashes_of_rows(rows):
    return {(dumps.sanitised(r["Op Name"]), r["IO"], int(r["Slot"])): (r["MD5"], r["SHA1"]) for r in rows}


def hashes_of_files(dump, iteration):
    return {key: (md5(array), sha1(array)) for key, array in dumps.tensors(dump, iteration).items()}


@pytest.fixture(scope="module")
def files(compare):
    """The hashes of the npy files of the training, by step."""
    dump = compare(training(), saved_data="tensor").dump
    found = [hashes_of_files(dump, iteration) for iteration in range(2)]
    assert len(found[0]) > 100
    sizes = [array.size for array in dumps.tensors(dump).values()]
    assert min(sizes) == 1
    assert max(sizes) > 6 * SLICE
    return found


@pytest.mark.parametrize("saved_data", ["statistic", "full"])
@pytest.mark.parametrize("budget", [None, 1 << 20])
def test_hashes_are_those_of_the_files(saved_data, budget, files, train, config):
    settings = {} if budget is None else {"budget_bytes": budget}
    path = config(saved_data=saved_data, sonde_settings=settings, **HASHES)
    run = train(training(), config=path)
    assert run.status == 0, run.stderr
    for iteration in range(2):
        rows = dumps.statistics(run.dump, iteration)
        assert hashes_of_rows(rows) == files[iteration]
        if saved_data == "full":
            assert hashes_of_files(run.dump, iteration) == files[iteration]


def test_equal_tensors_of_several_slots_have_the_same_text(files):
    slots = collections.Counter(files[0].values())
    assert slots.most_common(1)[0][1] > 2


@pytest.mark.cold
def test_a_killed_training_leaves_rows_with_the_right_texts(files, script, config, dump, tmp_path):
    after = "if step == 1: print('two steps', flush=True); import time; time.sleep(60)"
    path = config(saved_data="statistic", **HASHES)
    process = subprocess.Popen(
        [sys.executable, script(training(after=after))],
        env={"MINDSPORE_DUMP_CONFIG": str(path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "two steps\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert hashes_of_rows(dumps.statistics(dump, 0)) == files[0]
    with open(dumps.step_directory(dump, 1) / "statistic.csv", newline="") as file:
        rows = hashes_of_rows(list(csv.DictReader(file)))
    assert len(rows) > 50
    assert rows == {key: files[1][key] for key in rows}
