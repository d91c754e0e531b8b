"""Unusual programs: their records are true, and they run as without Sonde."""

import dumps
import numpy as np
import pytest

HEAD = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    x = torch.ones(1, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def names(run, **where):
    return [row["Op Name"] for row in dumps.statistics(run.dump, **where)]


def test_every_row_of_a_full_dump_has_its_file_whatever_the_types(train, config):
    """A quint8 and a uint8 tensor can be one file."""
    run = train(
        HEAD
        + """
    net(x).sum().backward()
    codes = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 3, torch.quint8).int_repr()
    codes.clone()
    codes.detach()
    optimizer.step()
    """,
        config(saved_data="full"),
    )
    files = list(dumps.step_directory(run.dump).glob("*.npy"))
    assert len(files) == len(dumps.statistics(run.dump)) > 20


def test_uninitialised_memory_is_not_taken_for_values(train, config):
    run = train(
        HEAD
        + """
    net(x).sum().backward()
    torch.full((999,), float("nan")).sum().item()
    torch.empty(999).zero_()
    optimizer.step()
    """,
        config(saved_data="tensor"),
    )
    found = dumps.tensors(run.dump)
    assert ("Default_zero_-op0", "input", 0) not in found
    assert np.array_equal(found["Default_zero_-op0", "output", 0], np.zeros(999, np.float32))


def test_a_view_expanded_beyond_the_budget_is_left_out(train, config):
    run = train(
        HEAD
        + """
    net(x).sum().backward()
    torch.zeros(1).expand(2**31, 2**31).detach()
    torch.zeros(1).expand(20000, 20000).detach()
    torch.arange(3.0).expand(4, 3).detach()
    optimizer.step()
    print("trained")
    """,
        config(saved_data="tensor"),
    )
    assert run.status == 0 and "trained" in run.stdout, run.stderr
    found = dumps.tensors(run.dump)
    assert found["Default_detach-op2", "input", 0].shape == (4, 3)
    assert max(array.nbytes for array in found.values()) < 1000


def test_writes_inside_an_op_and_through_another_storage_are_seen(train, config):
    run = train(
        HEAD
        + """
    from torch.utils.dlpack import from_dlpack
    net(x).sum().backward()
    shared = torch.ones(3)
    shared.sin()
    from_dlpack(shared).add_(5)
    shared.cos()
    mean = torch.zeros(2)
    mean.exp()
    torch.batch_norm_update_stats(torch.full((4, 2), 8.0), mean, torch.ones(2), 1.0)
    mean.abs()
    optimizer.step()
    """,
        config(saved_data="tensor"),
    )
    found = dumps.tensors(run.dump)
    assert np.array_equal(found["Default_cos-op0", "input", 0], np.full(3, 6, np.float32))
    assert np.array_equal(found["Default_abs-op0", "input", 0], np.full(2, 8, np.float32))


def test_a_step_that_is_not_recorded_may_change_what_another_reads(train, config):
    run = train(
        HEAD
        + """
    for step in range(3):
        first = net(x)
        with torch.no_grad():
            net(x)
            x.mul_(2)
        net(x).sum().backward()
        optimizer.step()
    """,
        config(saved_data="tensor", iteration="0|2"),
    )
    # Evaluation 1 is not recorded, training 2 is: it must not reuse the old content of x.
    found = dumps.tensors(run.dump, iteration=2)
    assert found["Default_network-Sequential_0-Linear_linear-op0", "input", 0][0, 0] == 4
    assert found["Default_network-Sequential_0-Linear_linear-op1", "input", 0][0, 0] == 8


def test_evaluations_inside_a_step_leave_its_names_alone(train, config):
    run = train(
        HEAD
        + """
    out = net(x)
    with torch.no_grad():
        for _ in range(5):
            net(x)
    out.sum().backward()
    optimizer.step()
    """,
        config(),
    )
    assert sum(name.startswith("data-") for name in names(run)) == 1


def test_parameters_of_two_models_have_one_name_each(train, config):
    run = train(
        HEAD
        + """
    critic = nn.Linear(3, 1)
    second = torch.optim.Adam(critic.parameters())
    for step in range(2):
        critic(net(x)).sum().backward()
        optimizer.step()
        second.step()
    """,
        config(),
    )
    found = names(run, iteration=1)
    for name in ("0.weight", "0.weight.grad", "network1-Linear.weight", "network1-Linear.weight.grad"):
        assert name in found, found
    assert "exp_avg.network1-Linear.weight" in found


def test_a_model_used_through_other_methods_than_forward_keeps_its_names(train, config):
    run = train(
        """
    import torch
    from torch import nn
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(2, 3)
            self.decoder = nn.Linear(3, 2)
        def encode(self, x):
            return self.encoder(x)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        model.decoder(model.encode(torch.ones(1, 2))).sum().backward()
        optimizer.step()
    """,
        config(),
    )
    found = names(run, iteration=1)
    assert "Default/network-Model/encoder-Linear/linear-op0" in found
    assert "Default/network-Model/decoder-Linear/linear-op0" in found
    assert {"encoder.weight", "decoder.bias.grad"} <= set(found)


def test_a_module_made_anew_in_each_step_keeps_its_name(train, config):
    run = train(
        HEAD
        + """
    for step in range(3):
        nn.CrossEntropyLoss()(net(x), torch.tensor([1])).backward()
        optimizer.step()
    """,
        config(),
    )
    scope = "Default/network1-CrossEntropyLoss/"
    assert [sum(name.startswith(scope) for name in names(run, iteration=i)) > 0 for i in range(3)] == [True] * 3


def test_a_second_model_trained_later_is_noticed(train, config):
    run = train(
        HEAD
        + """
    for fold in range(3):
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            net(x).sum().backward()
            optimizer.step()
    """,
        config(iteration="8"),
    )
    assert dumps.steps(run.dump) == [8]


def test_overridden_methods_of_a_model_are_not_run(train, config):
    program = """
    import torch
    from torch import nn
    class Odd(nn.Linear):
        def named_parameters(self, *args, **kwargs):
            torch.rand(1)  # moves the generator
            return super().named_parameters(*args, **kwargs)
        def parameters(self, recurse=True):
            return list(super().parameters(recurse))
    torch.manual_seed(0)
    net = Odd(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        net(torch.rand(1, 2)).sum().backward()
        optimizer.step()
    print(net.weight.tolist())
    """
    run = train(program, config())
    assert run.stdout == train(program).stdout
    assert dumps.steps(run.dump) == [0, 1, 2]


@pytest.mark.parametrize(
    "look",
    [
        "torch.export.export(net, (x,), strict=True)",
        "torch.compile(net, backend='eager', fullgraph=True)(x)",
        "torch.fx.symbolic_trace(net)",
        "sonde.stop(); torch.jit.script(copy.deepcopy(twin))",
    ],
)
def test_a_watched_model_can_be_exported_compiled_and_traced(look, train, config):
    run = train(
        HEAD
        + f"""
    import copy, sonde
    net(x).sum().backward()
    optimizer.step()
    twin = copy.deepcopy(net)
    {look}
    print("looked")
    """,
        config(),
    )
    assert run.status == 0 and "looked" in run.stdout, run.stderr


def test_a_run_for_the_graph_alone_in_which_no_step_began_says_so(train, config):
    run = train("import torch\nprint(torch.__name__)", config(sonde_settings={"saved_data": "graph"}))
    assert run.status == 0
    assert "nothing was recorded" in run.stderr


def test_code_executed_again_and_again_has_its_own_lines(train, config):
    run = train(
        HEAD
        + """
    net(x).sum().backward()
    for cell in range(6):
        exec(compile("x.relu()", f"cell_{cell}.py", "exec"))
    optimizer.step()
    """,
        config(),
    )
    journal = (run.dump / "rank_0/.dump_metadata/sonde/journal").read_bytes()
    assert all(f"cell_{cell}.py".encode() in journal for cell in range(6))


@pytest.mark.parametrize("reentrant", [True, False])
def test_lines_of_a_function_that_a_checkpoint_runs_again_are_no_gradients(reentrant, train, config):
    program = f"""
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

            def forward(self, x):
                inner = lambda t: torch.relu(self.last(torch.tanh(self.first(t))))
                return checkpoint(inner, x, use_reentrant={reentrant})

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(2, 3, requires_grad=True)).sum().backward()
        optimizer.step()
    """
    run = train(program, config(saved_data="statistic", statistic_category=["max"]))
    assert run.status == 0, run.stderr
    order = dumps.execution_order(run.dump)
    for op in ("tanh", "relu"):
        assert [name for name in order if name.endswith(f"/{op}-op0")] == [
            f"Default/network-Net/{op}-op0",
            f"Default/recompute/network-Net/{op}-op0",
        ]
    assert "Default/recompute/network-Net/first-Linear/linear-op0" in order
