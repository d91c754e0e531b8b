"""Parts of the recording of compiled graphs, without a compiler: order of operations, graphs inside nodes, memory."""

import types

import torch
from torch import fx
from torch._inductor import memory

from sonde.compiled import forms, lowering, order, taps


class Operation:
    """An operation of Inductor's scheduler, as far as its order goes."""

    def __init__(self, name, *needs, is_extern=False):
        self.name, self._is_extern = name, is_extern
        self.unmet_dependencies = [types.SimpleNamespace(name=one) for one in needs]

    def get_buffer_names(self):
        return {self.name}

    def is_extern(self):
        return self._is_extern


def run_order(nodes, program):
    by_name = {node.name: node for node in nodes}
    merged = order.merged(nodes, [by_name[name] for name in program])
    return None if merged is None else [node.name for node in merged]


def test_the_program_keeps_its_order_and_taps_wait_for_the_end_of_a_function():
    nodes = [
        Operation("a"),
        Operation("kernel of a's tap", "a"),
        Operation("tap of a", "kernel of a's tap", is_extern=True),
        Operation("b"),
        Operation("tap of b", "b", "tap of a", is_extern=True),
        Operation("mm", "a", "b", is_extern=True),
        Operation("c", "mm"),
        Operation("tap of c", "c", "tap of b", is_extern=True),
    ]
    ordered = run_order(nodes, ["b", "a", "mm", "c"])
    assert ordered == ["b", "a", "kernel of a's tap", "tap of a", "tap of b", "mm", "c", "tap of c"]


def test_a_tap_runs_before_the_program_writes_what_it_reads():
    tap = Operation("tap", "a", is_extern=True)
    assert run_order([Operation("a"), tap, Operation("writes a", "tap")], ["a", "writes a"]) == ["a", "tap", "writes a"]
    late = Operation("tap", "a", "b", is_extern=True)
    nodes = [Operation("a"), Operation("b"), late, Operation("writes a", "tap")]
    assert run_order(nodes, ["a", "writes a", "b"]) is None


def test_inductor_orders_the_program_without_the_taps(monkeypatch):
    monkeypatch.setattr(memory, "reorder_for_peak_memory", lambda nodes: nodes[::-1], raising=False)
    nodes = [Operation("a"), Operation("tap of a", "a", is_extern=True), Operation("b")]
    with order.program_keeps_its_order(lambda node: node.name.startswith("tap")):
        ordered = memory.reorder_for_peak_memory(nodes)
    assert [node.name for node in ordered] == ["b", "a", "tap of a"]
    assert memory.reorder_for_peak_memory(nodes) == nodes[::-1]


def nested():
    """A graph with another graph inside, as torch.cond has one for each branch."""
    inner = fx.symbolic_trace(lambda x: x.sin())
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("branch", (x,)))
    return fx.GraphModule({"branch": inner}, graph)


def test_a_graph_inside_a_node_gets_no_taps():
    module, seen = nested(), []
    choice = taps.Choice(lambda _: None, by_value=False, key="")
    own = taps.TapPass(seen.append, module, False, {}, choice)
    before = str(module.branch.graph)
    own(module.branch.graph)
    assert str(module.branch.graph) == before
    assert seen == [module.branch.graph]  # the user's own pass ran


def test_a_copied_graph_shares_no_graph_inside():
    module = nested()
    twin = forms.copy_of(module)
    assert twin.branch.graph is not module.branch.graph
    assert twin(torch.ones(2)).tolist() == module(torch.ones(2)).tolist()


def test_large_buffers_come_from_kept_memory_except_those_that_the_code_returns():
    code = """
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
def call(args):
    buf0 = empty_strided_cpu((512, 512), (512, 1), torch.float32)
    buf1 = empty_strided_cpu((512, 512), (512, 1), torch.float32)
    buf2 = empty_strided_cpu((8, 8), (8, 1), torch.float32)
    return (buf1, )
"""
    lines = lowering.with_kept_memory(code, {"buf1"}).splitlines()
    assert [line.partition("(")[0].split()[-1] for line in lines[3:6]] == [
        "sonde_memory",
        "empty_strided_cpu",
        "empty_strided_cpu",
    ]
