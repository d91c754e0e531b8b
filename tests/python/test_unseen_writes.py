"""Memory that changes without an operator: the record has the values that the next operator reads."""

import json
import textwrap

import dumps
import numpy as np
import pytest

# Every case is a step of its own. It makes a tensor, lets an operator read it (`sin`), so that Sonde knows its content,
# changes its memory in the way under test, keeps the true values with NumPy, and lets another operator read it (`cos`).
PROGRAM = """
    import copy, ctypes, json
    import numpy as np
    import sonde
    import torch
    from torch import nn
    from torch.utils import dlpack

    torch.manual_seed(0)
    torch.set_num_threads(1)
    truth, order = {{}}, []


    def bytes_of(tensor):
        "The elements, read past torch: neither an operator nor an alias that Sonde could notice."
        assert tensor.is_contiguous()
        count = tensor.numel()
        at = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_float))
        return np.array([at[i] for i in range(count)], np.float32).reshape(tensor.shape)


    def case(name, make, change):
        with torch.no_grad():
            tensor = make()
            tensor.sin()
            before = bytes_of(tensor)
            tensor = change(tensor)
            after = bytes_of(tensor)
            tensor.cos()
        assert before.shape != after.shape or not np.array_equal(before, after), name
        truth[name], truth[name + " before"] = after, before
        order.append(name)
        print(name, after.tolist())
        sonde.step()


    def ones():
        return torch.ones(4)


{helpers}
{cases}
    json.dump(order, open("order.json", "w"))
    np.savez("truth.npz", **truth)
"""

HELPERS = """
    def batch_norm(mean):
        torch.nn.functional.batch_norm(torch.randn(8, 4), mean, torch.ones(4), training=True)
        return mean

    def batch_norm_module(mean):
        layer = nn.BatchNorm1d(4)
        layer.running_mean = mean
        layer(torch.randn(8, 4))
        return mean

    def instance_norm(mean):
        torch.nn.functional.instance_norm(torch.randn(8, 4, 5), mean, torch.ones(4), use_input_stats=True)
        return mean

    def numpy_alias(tensor):
        array = tensor.numpy()
        array += 1
        return tensor

    def numpy_alias_of_a_view(tensor):
        array = tensor[1:].numpy()
        array += 1
        return tensor

    def array_interface(tensor):
        np.asarray(tensor)[2] = 7
        return tensor

    array = np.ones(4, np.float32)

    def of_numpy(tensor):
        array[...] = 3
        return tensor

    def dlpack_to_numpy(tensor):
        alias = np.from_dlpack(tensor)
        if alias.flags.writeable:
            alias += 1
        else:
            ctypes.cast(alias.ctypes.data, ctypes.POINTER(ctypes.c_float))[0] = 9
        return tensor

    def dlpack_to_torch(tensor):
        dlpack.from_dlpack(dlpack.to_dlpack(tensor)).add_(1)
        return tensor

    def dlpack_made_before():
        tensor = torch.ones(4)
        tensor.alias = np.from_dlpack(tensor)
        return tensor

    def dlpack_written_later(tensor):
        ctypes.cast(tensor.alias.ctypes.data, ctypes.POINTER(ctypes.c_float))[0] = 9
        return tensor

    def numpy_made_before():
        tensor = torch.ones(4)
        tensor.alias = tensor.numpy()
        return tensor

    def numpy_written_later(tensor):
        tensor.alias += 1
        return tensor

    def storage_copy(tensor):
        tensor.untyped_storage().copy_(torch.full((4,), 5.0).untyped_storage())
        return tensor

    def storage_fill(tensor):
        tensor.untyped_storage().fill_(0)
        return tensor

    def storage_byte(tensor):
        tensor.untyped_storage()[3] = 64
        return tensor

    def storage_of_floats(tensor):
        tensor.storage()[1] = 8.0
        return tensor

    def through_the_storages_address(tensor):
        ctypes.memset(tensor.untyped_storage().data_ptr(), 0, 8)
        return tensor

    def through_its_address(tensor):
        ctypes.memset(tensor.data_ptr(), 0, 8)
        return tensor

    def empty_filled():
        tensor = torch.empty(4)
        ctypes.memmove(tensor.data_ptr(), np.ones(4, np.float32).ctypes.data, 16)
        return tensor

    def empty_filled_by_numpy():
        tensor = torch.empty(4)
        tensor.numpy()[...] = 1
        return tensor

    @torch.library.custom_op("corner::declared", mutates_args=("t",))
    def declared(t: torch.Tensor) -> None:
        t.numpy()[...] = 6

    @torch.library.custom_op("corner::undeclared", mutates_args=())
    def undeclared(t: torch.Tensor) -> torch.Tensor:
        t.add_(2)
        return t.clone()

    @torch.library.custom_op("corner::undeclared_numpy", mutates_args=())
    def undeclared_numpy(t: torch.Tensor) -> torch.Tensor:
        t.numpy()[...] = 11
        return t.clone()

    old_style = torch.library.Library("cornerlib", "DEF")
    old_style.define("quiet(Tensor t) -> Tensor")
    old_style.impl("quiet", lambda t: (t.mul_(3), t.clone())[1], "CPU")

    def swapped(tensor):
        torch.utils.swap_tensors(tensor, torch.full((4,), 2.0))
        return tensor

    def state_dict_loaded(weight):
        layer = nn.Linear(4, 1, bias=False)
        layer.weight = weight
        layer.load_state_dict({"weight": torch.full((1, 4), 4.0)})
        return weight

    def state_dict_assigned(weight):
        layer = nn.Linear(4, 1, bias=False)
        layer.weight = weight
        layer.load_state_dict({"weight": torch.full((1, 4), 4.0)}, assign=True)
        return layer.weight

    def parameter():
        return nn.Parameter(torch.ones(1, 4))

    def optimizer_state(weight):
        weight.grad = torch.ones(1, 4)
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        optimizer.step()
        momentum = optimizer.state[weight]["momentum_buffer"]
        momentum.sin()
        state = copy.deepcopy(optimizer.state_dict())
        state["state"][0]["momentum_buffer"].numpy()[...] = 13
        optimizer.load_state_dict(state)
        return optimizer.state[weight]["momentum_buffer"]

    def averaged(weight):
        model = nn.Linear(4, 1, bias=False)
        model.weight.fill_(3)
        ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
        ema.module.weight = weight
        ema.update_parameters(model)
        model.weight.fill_(5)
        ema.update_parameters(model)
        return weight

    def base_through_a_view(tensor):
        tensor[1:3].mul_(5)
        return tensor

    def first_half():
        global base
        base = torch.ones(8)
        return base[:4]

    def view_through_its_base(view):
        base.add_(1)
        return view

    def view_through_another_type(view):
        base.view(torch.int32).add_(1)
        return view

    def resized(tensor):
        tensor.resize_(6).zero_()
        return tensor

    def set_to(tensor):
        return tensor.set_(torch.full((4,), 6.0))

    def data_replaced(tensor):
        tensor.data = torch.full((4,), 6.0)
        return tensor

    def out_variant(tensor):
        torch.add(torch.ones(4), 2, out=tensor)
        return tensor

    def foreach(tensor):
        torch._foreach_add_([tensor, torch.ones(2)], 1.0)
        return tensor

    def foreach_copy(tensor):
        torch._foreach_copy_([tensor], [torch.full((4,), 8.0)])
        return tensor

    def clipped(weight):
        weight.grad = torch.ones(1, 4)
        gradient = weight.grad
        gradient.sin()
        nn.utils.clip_grad_norm_([weight], 0.5)
        return gradient

    def vector_to_parameters(weight):
        nn.utils.vector_to_parameters(torch.full((4,), 8.0), [weight])
        return weight

    @torch.jit.script
    def scripted(t: torch.Tensor):
        t.mul_(4)
        return t

    class Dirty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.mark_dirty(t)
            t.numpy()[...] = 15
            return t

        @staticmethod
        def backward(ctx, g):
            return g

    def mapped():
        np.ones(4, np.float32).tofile("mapped.bin")
        return torch.from_file("mapped.bin", shared=True, size=4)

    def written_to_the_file(tensor):
        with open("mapped.bin", "r+b") as file:
            file.write(np.float32([9]).tobytes())
        return tensor

    def in_another_thread(tensor):
        import threading
        thread = threading.Thread(target=lambda: tensor.add_(1))
        thread.start()
        thread.join()
        return tensor

    def item_assigned(tensor):
        tensor[2] = 5
        return tensor

    def masked(tensor):
        tensor[tensor > 0] = 5
        return tensor
"""

CASES = {
    "add_ on .data": ("ones", "lambda t: (t.data.add_(1), t)[1]"),
    "batch_norm, running mean": ("ones", "batch_norm"),
    "BatchNorm1d, running mean": ("ones", "batch_norm_module"),
    "instance_norm, running mean": ("ones", "instance_norm"),
    "NumPy, through numpy()": ("ones", "numpy_alias"),
    "NumPy, through numpy() of a view": ("ones", "numpy_alias_of_a_view"),
    "NumPy, through asarray": ("ones", "array_interface"),
    "NumPy, alias made before": ("numpy_made_before", "numpy_written_later"),
    "NumPy's own memory": ("lambda: torch.from_numpy(array)", "of_numpy"),
    "DLPack to NumPy": ("ones", "dlpack_to_numpy"),
    "DLPack to NumPy, made before": ("dlpack_made_before", "dlpack_written_later"),
    "DLPack to torch": ("ones", "dlpack_to_torch"),
    "untyped_storage().copy_": ("ones", "storage_copy"),
    "untyped_storage().fill_": ("ones", "storage_fill"),
    "untyped_storage()[i] =": ("ones", "storage_byte"),
    "storage()[i] =": ("ones", "storage_of_floats"),
    "ctypes through the storage's address": ("ones", "through_the_storages_address"),
    "custom op that declares it": ("ones", "lambda t: (declared(t), t)[1]"),
    "custom op that does not declare it": ("ones", "lambda t: (undeclared(t), t)[1]"),
    "custom op that writes with NumPy, undeclared": ("ones", "lambda t: (undeclared_numpy(t), t)[1]"),
    "op of a library, undeclared": ("ones", "lambda t: (torch.ops.cornerlib.quiet(t), t)[1]"),
    "swap_tensors": ("ones", "swapped"),
    "load_state_dict": ("parameter", "state_dict_loaded"),
    "load_state_dict, assign": ("parameter", "state_dict_assigned"),
    "optimizer.load_state_dict": ("parameter", "optimizer_state"),
    "exponential moving average": ("parameter", "averaged"),
    "_foreach_add_": ("ones", "foreach"),
    "_foreach_copy_": ("ones", "foreach_copy"),
    "clip_grad_norm_": ("parameter", "clipped"),
    "vector_to_parameters": ("parameter", "vector_to_parameters"),
    "out=": ("ones", "out_variant"),
    "base through a view": ("ones", "base_through_a_view"),
    "view through its base": ("first_half", "view_through_its_base"),
    "view through another type": ("first_half", "view_through_another_type"),
    "resize_": ("ones", "resized"),
    "set_": ("ones", "set_to"),
    ".data =": ("ones", "data_replaced"),
    "apply_": ("ones", "lambda t: t.apply_(lambda x: x + 1)"),
    "map_": ("ones", "lambda t: t.map_(torch.ones(4), lambda x, y: x + y)"),
    "scripted function": ("ones", "scripted"),
    "autograd.Function, mark_dirty": ("ones", "Dirty.apply"),
    "mapped file": ("mapped", "written_to_the_file"),
    "another thread": ("ones", "in_another_thread"),
    "item assigned": ("ones", "item_assigned"),
    "mask assigned": ("ones", "masked"),
    "init": ("ones", "lambda t: nn.init.constant_(t, 4)"),
    "empty, filled by NumPy": ("empty_filled_by_numpy", "lambda t: t.add_(1)"),
    "torch.tensor": ("lambda: torch.tensor([1.0, 2.0])", "lambda t: t.add_(1)"),
    "torch.as_tensor": ("lambda: torch.as_tensor([1.0, 2.0])", "lambda t: t.add_(1)"),
    "torch.Tensor": ("lambda: torch.Tensor([1, 2])", "lambda t: t.add_(1)"),
    "torch.asarray": ("lambda: torch.asarray([1.0, 2.0])", "lambda t: t.add_(1)"),
    "new_tensor": ("lambda: ones().new_tensor([1.0, 2.0])", "lambda t: t.add_(1)"),
    "bernoulli_": ("ones", "lambda t: t.bernoulli_(0.0)"),
}


def program(cases):
    lines = [f"    case({name!r}, {make}, {change})" for name, (make, change) in cases.items()]
    helpers = textwrap.indent(textwrap.dedent(HELPERS), "    ")
    return PROGRAM.format(helpers=helpers, cases="\n".join(lines))


@pytest.fixture(scope="module")
def writes(compare):
    run = compare(program(CASES), saved_data="tensor", sonde_settings={"step": "manual"})
    assert run.bare.status == 0, run.bare.stderr
    assert run.recorded.status == 0, run.recorded.stderr
    run.truth = np.load(run.directory / "truth.npz")
    run.steps = {name: i for i, name in enumerate(json.loads((run.directory / "order.json").read_text()))}
    return run


def test_no_case_changes_a_result(writes):
    assert writes.bare.stdout == writes.recorded.stdout
    assert len(writes.recorded.sonde_lines) == 1


@pytest.mark.parametrize("name", CASES)
def test_the_next_operator_is_recorded_with_what_it_read(name, writes):
    found = dumps.tensors(writes.dump, writes.steps[name])
    np.testing.assert_array_equal(found["Default_sin-op0", "input", 0], writes.truth[name + " before"])
    np.testing.assert_array_equal(found["Default_cos-op0", "input", 0], writes.truth[name])


# Sonde cannot see these; docs/guide.md says so, and that `reread` is the cure.
INVISIBLE = {
    "ctypes through data_ptr": ("ones", "through_its_address"),
    "ctypes into fresh memory": ("empty_filled", "through_its_address"),
}


def test_what_nobody_can_see_is_read_again_when_asked(train, config, tmp_path):
    run = train(program(INVISIBLE), config(saved_data="tensor", sonde_settings={"step": "manual", "reread": True}))
    assert run.status == 0, run.stderr
    truth = np.load(tmp_path / "truth.npz")
    for step, name in enumerate(INVISIBLE):
        found = dumps.tensors(run.dump, step)
        np.testing.assert_array_equal(found["Default_sin-op0", "input", 0], truth[name + " before"])
        np.testing.assert_array_equal(found["Default_cos-op0", "input", 0], truth[name])
