"""With Sonde on, the bits are those of a run without it."""

import re

import pytest

PRELUDE = """
    import hashlib
    import torch
    from torch import nn
    torch.manual_seed(0)
    digest = hashlib.sha256()

    def note(tensor):
        digest.update(tensor.detach().contiguous().numpy().tobytes())
"""

CONVOLUTION = """
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Flatten(),
                        nn.Linear(4 * 36, 5))
    data = lambda: torch.randn(4, 1, 8, 8)
"""
TRANSFORMER = """
    net = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True), nn.Linear(16, 5))
    data = lambda: torch.randn(2, 6, 16)
"""
LOOP = """
    optimizer = {optimizer}
    for step in range(20):
        optimizer.zero_grad()
        loss = net(data()).square().mean()
        loss.backward()
        note(loss)
        for parameter in net.parameters():
            note(parameter.grad)
        optimizer.step()
    for value in net.state_dict().values():
        note(value)
    print(digest.hexdigest())
"""


@pytest.mark.parametrize("network", [CONVOLUTION, TRANSFORMER], ids=["convolution", "transformer"])
@pytest.mark.parametrize(
    "optimizer",
    [
        "torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)",
        "torch.optim.Adam(net.parameters())",
        "torch.optim.AdamW(net.parameters(), fused=True)",
    ],
    ids=["sgd", "adam", "fused_adamw"],
)
def test_twenty_steps_are_bit_identical(network, optimizer, train, config):
    source = PRELUDE + network + LOOP.format(optimizer=optimizer)
    bare = train(source)
    assert bare.status == 0, bare.stderr
    statistics = train(source, config(saved_data="statistic", statistic_category=["max", "min", "avg", "l2norm"]))
    tensors = train(source, config(saved_data="tensor"))
    assert statistics.dump.exists()
    assert bare.stdout == statistics.stdout == tensors.stdout


STEALING = """
    import torch
    from torch import nn
    net = nn.Linear(8, 8)
    seen = {}
    for name, parameter in net.named_parameters():
        parameter.register_hook(lambda gradient, name=name: seen.__setitem__(name, gradient.data_ptr()))
    net(torch.ones(2, 8)).sum().backward()
    print([seen[name] == parameter.grad.data_ptr() for name, parameter in net.named_parameters()])
"""


def test_gradients_are_still_stolen_and_not_copied(train, config):
    bare = train(STEALING)
    on = train(STEALING, config(saved_data="tensor"))
    assert "True" in bare.stdout
    assert bare.stdout == on.stdout


MODELS_ARE_COPIED = """
    import copy, io, pickle
    import torch
    from torch import nn
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net(torch.ones(1, 2))
    clone = copy.deepcopy(net)
    clone(torch.ones(1, 2))
    buffer = io.BytesIO()
    torch.save(net, buffer)
    buffer.seek(0)
    torch.load(buffer, weights_only=False)(torch.ones(1, 2))
    pickle.loads(pickle.dumps(net))(torch.ones(1, 2))
    print(torch.jit.script(net)(torch.ones(1, 2)).shape, torch.jit.trace(net, torch.ones(1, 2))(torch.ones(1, 2)).shape)
"""


@pytest.mark.cold
def test_a_watched_model_can_be_copied_pickled_and_scripted(train, config):
    bare = train(MODELS_ARE_COPIED)
    on = train(MODELS_ARE_COPIED, config(saved_data="statistic", statistic_category=["max"]))
    assert bare.status == 0 and on.status == 0, on.stderr
    assert bare.stdout == on.stdout


def test_a_pickled_model_loads_where_sonde_is_not_used(train, config, tmp_path):
    saving = """
        import torch
        net = torch.nn.Linear(2, 2)
        net(torch.ones(1, 2))
        torch.save(net, "model.pt")
    """
    loading = """
        import sys
        import torch
        print(torch.load("model.pt", weights_only=False)(torch.ones(1, 2)).shape, "sonde" in sys.modules)
    """
    assert train(saving, config(saved_data="statistic", statistic_category=["max"])).status == 0
    loaded = train(loading)
    assert loaded.stdout == "torch.Size([1, 2]) False\n", loaded.stderr


@pytest.mark.cold
def test_an_exception_in_the_users_forward_reaches_the_user(train, config):
    source = """
        import torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(2, 2)
            def forward(self, x):
                return self.fc(x) @ torch.ones(7, 7)
        Net()(torch.ones(1, 2))
    """
    on = train(source, config(saved_data="tensor"))
    assert on.status == 1
    assert re.search(r"RuntimeError: (mm: )?mat1 and mat2 shapes cannot be multiplied", on.stderr)
    assert on.dump.exists()  # earlier steps are there


def test_a_recorded_step_uses_the_memory_that_the_last_one_has_freed(train, config):
    """Otherwise each step gets thousands of pages from the system, and gives them back at its end."""
    source = """
        import resource
        import torch
        from torch import nn
        torch.set_num_threads(1)
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            activations = [torch.ones(1 << 19) for _ in range(16)]  # 32 MB
            net(torch.ones(3, 4)).sum().backward()
            del activations
            optimizer.step()

        for _ in range(4):
            step()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(8):
            step()
        print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 8)
    """
    recorded = train(source, config(saved_data="statistic", statistic_category=["max", "avg"]))
    assert recorded.status == 0, recorded.stderr
    assert int(recorded.stdout) < 1000  # without Sonde 8,000
