"""The facts that the engine derives from an operator's name (src/read/operators/op_nature.cpp), compared with the real
operator at its extremes. A name in a list that is not so of the operator fails; so does a name that this file does not
know."""

import itertools
import json
import pathlib
import re
import sys

import pytest
import torch
from op_extremes import CALLS
from processes import CLI, run_in, settings_of
from torch.nn import functional as F

INF, NAN = float("inf"), float("nan")
SOURCE = pathlib.Path(__file__).parents[2] / "src/read/operators/op_nature.cpp"


def names_in(table):
    text = re.search(rf"const TypeNames {table} =\s(.*?);", SOURCE.read_text(), re.DOTALL)[1]
    return " ".join(re.findall(r'"([\w ]+)"', text)).split()


# Of MindSpore, GE and Python, which PyTorch has under another name or not at all.
FOREIGN = {
    "kMoves": """expanddims stridedslice unstack concatd pack gatherd gathernd gatherv2 clipbyvalue relugrad identity
        load depend tuplegetitem maketuple getitem setitem transposeview""",
    "kMixes": "dense batchmatmul matmulv2",
    "kFlips": """muls realdiv linearlayer matmulv2 batchmatmul foreachmul foreachneg foreachdiv convolution""",
    "kTests": "checkfornan allfinite npugetfloatstatus floatstatus amptestoverflow",
}


def known_names(table, calls):
    names = set(names_in(table)) - set(FOREIGN.get(table, "").split())
    assert names - set(calls) == set(), f"{table}: no call here shows that these are so"
    return sorted(names)


def extremes(dtype):
    """Finite numbers at the ends of the type, in (4, 4)."""
    info = torch.finfo(dtype)
    row = [info.max, info.min, info.tiny, -info.tiny, 0.0, -0.0, 1.0, -1.0]
    return torch.tensor(row + row[::-1], dtype=dtype).view(4, 4)


def image(x):
    return x.reshape(1, 1, 4, 4)


INDEX = torch.tensor([[0, 1, 2, 3]] * 4)
ROW = torch.tensor([0, 3])

MOVES = {
    "relu": torch.relu,
    "view": lambda x: x.view(16),
    "viewas": lambda x: x.view_as(x),
    "reshape": lambda x: x.reshape(2, 8),
    "reshapealias": lambda x: x.reshape(8, 2),
    "transpose": lambda x: x.transpose(0, 1),
    "t": torch.t,
    "permute": lambda x: x.permute(1, 0),
    "flatten": torch.flatten,
    "unflatten": lambda x: x.unflatten(0, (2, 2)),
    "squeeze": torch.squeeze,
    "unsqueeze": lambda x: x.unsqueeze(0),
    "expand": lambda x: x.expand(2, 4, 4),
    "expandas": lambda x: x.expand_as(x),
    "clone": torch.clone,
    "contiguous": lambda x: x.t().contiguous(),
    "detach": lambda x: x.detach(),
    "alias": torch.ops.aten.alias,
    "copy": lambda x: torch.empty_like(x).copy_(x),
    "select": lambda x: x.select(0, 1),
    "slice": lambda x: x[1:3],
    "narrow": lambda x: x.narrow(0, 1, 2),
    "split": lambda x: x.split(2),
    "chunk": lambda x: x.chunk(2),
    "unbind": torch.unbind,
    "splitwithsizes": lambda x: x.split([1, 3]),
    "tensorsplit": lambda x: torch.tensor_split(x, 3),
    "cat": lambda x: torch.cat([x, x]),
    "concat": lambda x: torch.concat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "index": lambda x: x[ROW],
    "indexselect": lambda x: x.index_select(0, ROW),
    "gather": lambda x: x.gather(1, INDEX),
    "embedding": lambda x: F.embedding(ROW, x),
    "takealongdim": lambda x: torch.take_along_dim(x, INDEX, 1),
    "take": lambda x: torch.take(x, ROW),
    "maskedselect": lambda x: x.masked_select(x > 0),
    "neg": torch.neg,
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-1, 1),
    "clampmin": lambda x: x.clamp_min(0),
    "clampmax": lambda x: x.clamp_max(0),
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "minimum": lambda x: torch.minimum(x, x.flip(0)),
    "max": lambda x: x.max(0).values,
    "min": lambda x: x.min(0).values,
    "amax": torch.amax,
    "amin": torch.amin,
    "maxpool2d": lambda x: F.max_pool2d(image(x), 2, padding=1),
    "maxpool2dwithindices": lambda x: F.max_pool2d(image(x), 2, return_indices=True)[0],
    "maxpool1d": lambda x: F.max_pool1d(x[None], 2),
    "maxpool3d": lambda x: F.max_pool3d(image(x)[None], (1, 2, 2)),
    "adaptivemaxpool2d": lambda x: F.adaptive_max_pool2d(image(x), 2),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1),
    "repeat": lambda x: x.repeat(2, 1),
    "tile": lambda x: x.tile(2),
    "repeatinterleave": lambda x: x.repeat_interleave(2),
    "tril": torch.tril,
    "triu": torch.triu,
    "diag": torch.diag,
    "diagonal": torch.diagonal,
    "movedim": lambda x: x.movedim(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "asstrided": lambda x: x.as_strided((2, 2), (1, 2)),
    "pixelshuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 2), 2),
    "sort": lambda x: x.sort().values,
    "topk": lambda x: x.topk(2).values,
    "threshold": lambda x: F.threshold(x, 0.1, 20),
    "thresholdbackward": lambda x: torch.ops.aten.threshold_backward(x, x.flip(0), 0),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "softsign": F.softsign,
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "broadcastto": lambda x: torch.broadcast_to(x, (2, 4, 4)),
    "broadcasttensors": lambda x: torch.broadcast_tensors(x, x[:1]),
    "viewasreal": lambda x: torch.view_as_real(torch.complex(x.double(), x.double())),
    "viewascomplex": lambda x: torch.view_as_complex(x.double().reshape(4, 2, 2)),
    "atleast1d": torch.atleast_1d,
    "zeros": lambda x: torch.zeros(3, dtype=x.dtype),
    "zeroslike": torch.zeros_like,
    "ones": lambda x: torch.ones(3, dtype=x.dtype),
    "oneslike": torch.ones_like,
    "rand": lambda x: torch.rand(9, dtype=x.dtype),
    "randn": lambda x: torch.randn(99, dtype=x.dtype),
    "zero": lambda x: x.clone().zero_(),
    "newzeros": lambda x: x.new_zeros(3),
    "newones": lambda x: x.new_ones(3),
    "bernoulli": lambda x: torch.bernoulli(x.float().sigmoid()),
    "uniform": lambda x: x.clone().uniform_(-5, 5),
}


def all_of(result):
    return result if isinstance(result, tuple | list) else (result,)


@pytest.mark.parametrize("name", known_names("kMoves", MOVES))
def test_what_only_moves_makes_no_infinity_of_finite_numbers(name):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for x in (
            extremes(dtype),
            torch.zeros(4, 4, dtype=dtype),
            torch.full((4, 4), torch.finfo(dtype).max, dtype=dtype),
        ):
            for result in all_of(MOVES[name](x)):
                assert torch.isfinite(result).all(), f"{name} of {dtype} gives {result}"


def with_one(value):
    x = torch.ones(4, 4)
    x[1, 2] = value
    return x


MIXES = {
    "linear": lambda x: F.linear(x, torch.ones(4, 4)),
    "addmm": lambda x: torch.addmm(torch.ones(4), x, torch.ones(4, 4)),
    "mm": lambda x: x.mm(torch.ones(4, 4)),
    "bmm": lambda x: x[None].bmm(torch.ones(1, 4, 4)),
    "matmul": lambda x: x @ torch.ones(4, 4),
    "baddbmm": lambda x: torch.baddbmm(torch.ones(1), x[None], torch.ones(1, 4, 4)),
    "addbmm": lambda x: torch.addbmm(torch.ones(4, 4), x[None], torch.ones(1, 4, 4)),
    "mv": lambda x: x.mv(torch.ones(4)),
    "addmv": lambda x: torch.addmv(torch.ones(4), x, torch.ones(4)),
    "dot": lambda x: x[1].dot(torch.ones(4)),
    "vdot": lambda x: x[1].vdot(torch.ones(4)),
    "inner": lambda x: torch.inner(x, torch.ones(4, 4)),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, torch.ones(4, 4)),
    "tensordot": lambda x: torch.tensordot(x, torch.ones(4, 4), 1),
    "outer": lambda x: torch.outer(x[1], torch.ones(4)),
    "addr": lambda x: torch.addr(torch.ones(4, 4), x[1], torch.ones(4)),
    "bilinear": lambda x: F.bilinear(x, x, torch.ones(2, 4, 4)),
    "conv1d": lambda x: F.conv1d(x[None], torch.ones(1, 4, 2)),
    "conv2d": lambda x: F.conv2d(image(x), torch.ones(1, 1, 2, 2)),
    "conv3d": lambda x: F.conv3d(image(x)[None], torch.ones(1, 1, 1, 2, 2)),
    "convolution": lambda x: torch.convolution(
        image(x), torch.ones(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    ),
    "convtranspose1d": lambda x: F.conv_transpose1d(x[None], torch.ones(4, 1, 2)),
    "convtranspose2d": lambda x: F.conv_transpose2d(image(x), torch.ones(1, 1, 2, 2)),
    "convtranspose3d": lambda x: F.conv_transpose3d(image(x)[None], torch.ones(1, 1, 1, 2, 2)),
    "layernorm": lambda x: F.layer_norm(x, (4,)),
    "nativelayernorm": lambda x: torch.native_layer_norm(x, (4,), None, None, 0.1)[0],
    "batchnorm": lambda x: F.batch_norm(x, None, None, training=True),
    "nativebatchnorm": lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 0.1)[0],
    "groupnorm": lambda x: F.group_norm(x[None], 2),
    "nativegroupnorm": lambda x: torch.native_group_norm(x[None].contiguous(), None, None, 1, 4, 4, 2, 0.1)[0],
    "instancenorm": lambda x: F.instance_norm(x[None]),
    "rmsnorm": lambda x: F.rms_norm(x, (4,)),
    "fusedrmsnorm": lambda x: torch.ops.aten._fused_rms_norm(x, (4,), None, 0.1)[0],
    "mseloss": lambda x: F.mse_loss(x, torch.ones(4, 4)),
    "cosinesimilarity": lambda x: F.cosine_similarity(x, torch.ones(4, 4)),
}


@pytest.mark.parametrize("name", known_names("kMixes", MIXES))
def test_what_mixes_takes_no_infinity_away(name):
    for value in (INF, -INF):
        assert not torch.isfinite(MIXES[name](with_one(value))).all()


ONE = torch.ones(4, 4)
# These give +inf for -inf.
FLIPS = {
    "mul": lambda x: x * -1,
    "neg": torch.neg,
    "div": lambda x: x / -1,
    "sub": lambda x: 1 - x,
    "rsub": lambda x: torch.rsub(x, 1),
    "matmul": lambda x: x @ -ONE,
    "mm": lambda x: x.mm(-ONE),
    "bmm": lambda x: x[None].bmm(-ONE[None]),
    "addmm": lambda x: torch.addmm(ONE, x, -ONE),
    "baddbmm": lambda x: torch.baddbmm(ONE[None], x[None], -ONE[None]),
    "linear": lambda x: F.linear(x, -ONE),
    "pow": lambda x: x**2,
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, -ONE),
    "dot": lambda x: x[1].dot(-ONE[1]),
    "addcmul": lambda x: torch.addcmul(ONE, x, -ONE),
    "addcdiv": lambda x: torch.addcdiv(ONE, x, -ONE),
    "abs": torch.abs,
    "conv2d": lambda x: F.conv2d(image(x), -torch.ones(1, 1, 2, 2)),
    "conv1d": lambda x: F.conv1d(x[None], -torch.ones(1, 4, 2)),
    "conv3d": lambda x: F.conv3d(image(x)[None], -torch.ones(1, 1, 1, 2, 2)),
    "multiply": lambda x: torch.multiply(x, -1),
    "divide": lambda x: torch.divide(x, -1),
    "subtract": lambda x: torch.subtract(ONE, x),
    "square": torch.square,
    "linalgvectornorm": torch.linalg.vector_norm,
    "norm": torch.norm,
    "negative": torch.negative,
    "lerp": lambda x: torch.lerp(x, ONE, 2.0),
    "outer": lambda x: torch.outer(x[1], -ONE[1]),
    "mv": lambda x: x.mv(-ONE[1]),
    "addmv": lambda x: torch.addmv(ONE[1], x, -ONE[1]),
    "addbmm": lambda x: torch.addbmm(ONE, x[None], -ONE[None]),
    "addr": lambda x: torch.addr(ONE, x[1], -ONE[1]),
    "vdot": lambda x: x[1].vdot(-ONE[1]),
    "inner": lambda x: torch.inner(x, -ONE),
    "kron": lambda x: torch.kron(x, -ONE),
    "prod": lambda x: torch.prod(torch.where(INDEX + INDEX.t() == 0, -ONE, x)),
    "cumprod": lambda x: torch.cumprod(torch.where(INDEX == 0, -ONE, x), 1),
    "mseloss": lambda x: F.mse_loss(x, ONE),
    "l1loss": lambda x: F.l1_loss(x, ONE),
    "smoothl1loss": lambda x: F.smooth_l1_loss(x, ONE),
    "huberloss": lambda x: F.huber_loss(x, ONE),
    "cosh": torch.cosh,
    "truedivide": lambda x: torch.true_divide(x, -1),
    "tensordot": lambda x: torch.tensordot(x, -ONE, 1),
    "hypot": lambda x: torch.hypot(x, ONE),
    "cdist": lambda x: torch.cdist(x, ONE),
    "dist": lambda x: torch.dist(x, ONE),
    "copysign": lambda x: torch.copysign(x, 1.0),
    "frobeniusnorm": lambda x: torch.linalg.norm(x, "fro"),
    "convtranspose1d": lambda x: F.conv_transpose1d(x[None], -torch.ones(4, 1, 2)),
    "convtranspose2d": lambda x: F.conv_transpose2d(image(x), -torch.ones(1, 1, 2, 2)),
    "convtranspose3d": lambda x: F.conv_transpose3d(image(x)[None], -torch.ones(1, 1, 1, 2, 2)),
    "bilinear": lambda x: F.bilinear(x, ONE, -torch.ones(2, 4, 4)),
}


@pytest.mark.parametrize("name", known_names("kFlips", FLIPS))
def test_what_flips_the_sign_gives_infinity_of_minus_infinity(name):
    assert (FLIPS[name](with_one(-INF)) == INF).any()


TESTS = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "isposinf": torch.isposinf,
    "isneginf": torch.isneginf,
    "nantonum": torch.nan_to_num,
}


@pytest.mark.parametrize("name", known_names("kTests", TESTS))
def test_what_asks_for_infinities_gives_none(name):
    for value in (NAN, INF, -INF):
        assert torch.isfinite(TESTS[name](with_one(value)).float()).all()


SKIPS_NAN = {
    "nanmean": torch.nanmean,
    "nansum": torch.nansum,
    "nanmedian": torch.nanmedian,
    "nanquantile": lambda x: torch.nanquantile(x, 0.5),
}


@pytest.mark.parametrize("name", known_names("kSkipsNan", SKIPS_NAN))
def test_what_skips_nan_gives_none_where_anything_is_left(name):
    assert torch.isfinite(SKIPS_NAN[name](with_one(NAN)))


SHAPE_ONLY = {
    "oneslike": torch.ones_like,
    "zeroslike": torch.zeros_like,
    "fulllike": lambda x: torch.full_like(x, 2),
    "randlike": torch.rand_like,
    "randnlike": torch.randn_like,
    "newzeros": lambda x: x.new_zeros(2),
    "newones": lambda x: x.new_ones(2),
    "newfull": lambda x: x.new_full((2,), 3),
    "randintlike": lambda x: torch.randint_like(x, 5),
    "isfloatingpoint": lambda x: torch.tensor(torch.is_floating_point(x)),
    "size": lambda x: torch.tensor(x.size()),
    "dim": lambda x: torch.tensor(x.dim()),
    "numel": lambda x: torch.tensor(torch.numel(x)),
}
SHAPES = {"emptylike", "newempty", "newemptystrided", "shape", "symsize", "dynamicshape", "tensorshape", "rank"}


@pytest.mark.parametrize("name", sorted(set(names_in("kShapeOnly")) - SHAPES))
def test_what_looks_at_the_shape_alone_gives_no_nan_of_nan(name):
    assert torch.isfinite(SHAPE_ONLY[name](torch.full((4, 4), NAN)).float()).all()


OVERWRITES = {
    "fill": lambda x: x.fill_(1),
    "zero": lambda x: x.zero_(),
    "copy": lambda x: x.copy_(ONE),
    "normal": lambda x: x.normal_(),
    "uniform": lambda x: x.uniform_(),
    "random": lambda x: x.random_(),
    "exponential": lambda x: x.exponential_(),
    "set": lambda x: x.set_(ONE.clone()),
    "bernoulli": lambda x: x.bernoulli_(0.5),
    "lognormal": lambda x: x.log_normal_(),
    "cauchy": lambda x: x.cauchy_(),
    "geometric": lambda x: x.geometric_(0.5),
    "eye": torch.nn.init.eye_,
    "foreachcopy": lambda x: torch._foreach_copy_([x], [ONE]),
    "foreachzero": lambda x: torch._foreach_zero_([x]),
    "arange": lambda x: torch.arange(4, out=x.view(16)[:4].clone()),
    "randn": lambda x: torch.randn(4, 4, out=x),
}


@pytest.mark.parametrize("name", sorted(set(names_in("kOverwrites")) - {"fillv2", "assign", "truncnormal", "resize"}))
def test_what_overwrites_does_not_look_at_what_was_there(name):
    x = torch.full((4, 4), NAN)
    result = OVERWRITES[name](x)
    assert torch.isfinite(x if result is None or isinstance(result, tuple | list) else result).all()


COUNTS = {"kOneInput": 1, "kTwoInputs": 2, "kThreeInputs": 3}


def schemas(name):
    """The functions of ATen with this name, without `_`, that are neither in place nor backward."""
    for schema in torch._C._jit_get_all_schemas():
        space, _, function = schema.name.partition("::")
        if space == "aten" and not function.endswith("_") and function.replace("_", "").lower() == name:
            yield schema


@pytest.mark.parametrize(("table", "name"), [(table, name) for table in COUNTS for name in names_in(table)])
def test_what_comes_after_the_last_tensor_that_is_read_is_written(table, name):
    found = 0
    for schema in schemas(name):
        tensors = [a for a in schema.arguments if "Tensor" in str(a.type)]
        if any("List" in str(a.type) or "[]" in str(a.type) for a in tensors) or "dimname" in schema.overload_name:
            continue
        found += 1
        assert sum(not a.is_out for a in tensors) <= COUNTS[table], str(schema)
    assert found or name in ("negative", "multiply", "divide", "subtract"), f"no schema is called {name}"


def test_no_name_is_in_a_list_twice():
    for table in ("kMoves", "kPlaces", "kFlips", "kMixes", *COUNTS):
        names = names_in(table)
        assert sorted(set(names)) == sorted(names), table
    every = [set(names_in(table)) for table in COUNTS]
    assert not any(a & b for a, b in itertools.combinations(every, 2))


FORMULAS = SOURCE.parents[2] / "ask/first_bad/formulas.cpp"
# The same under the names of others, or of its kernels.
OTHER_NAMES = """realdiv divide truedivide divnonan multiply muls addv2 adds addext subext subtract power sqrtgrad inv
    tocopy cast type half bfloat16 arccos arcsin"""


@pytest.fixture(scope="module", params=["full", "statistic"])
def answers(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("extremes")
    config = directory / "data_dump.json"
    dump = directory / "dump"
    config.write_text(json.dumps(settings_of(dump, None, {"reread": True}, {"saved_data": request.param})))
    program = pathlib.Path(__file__).with_name("op_extremes.py")
    run = run_in(directory, dump, sys.executable, program, MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    found = {}
    for step, name in enumerate(CALLS):
        look = run_in(directory, dump, CLI, "first-bad", dump, "--json", "--step", step)
        found[name] = json.loads(look.stdout)["first"]
    return found


def test_every_formula_is_run():
    table = FORMULAS.read_text().split("kFormulas[] = {")[1].split("\n};")[0]
    names = set(re.findall(r'\{"(\w+)",', table))
    assert len(names) > 40
    assert names - set(OTHER_NAMES.split()) - set(CALLS) == set()


def test_what_is_computed_again_agrees_with_the_operator(answers):
    for name, first in answers.items():
        assert first is not None, name
        assert first["op_type"].strip("_").replace("_copy", "").replace("_", "") in (name, "half", "to"), (name, first)
        assert first["kind"] in ("operator", "overflow"), (name, first["why"])
        assert "uncertain" not in first["tags"], (name, first["why"])
