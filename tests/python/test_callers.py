"""The names of callers of collectives: one inside of another, and where they cannot be found. The names themselves are
checked in tests/parallel."""

import types

import pytest

pytest.importorskip("torch")

from sonde import callers


class Thread:
    """Stands for the adapter: what collectives of this thread are called by."""

    def __init__(self):
        self.text = ""

    def caller(self, text):
        before, self.text = self.text, text
        return before


def called(thread, text_of, body):
    place = types.SimpleNamespace(function=body)
    undo = callers._named(thread, place, "function", text_of)
    assert place.function is not body
    try:
        return place.function()
    finally:
        undo()
        assert place.function is body


def test_a_caller_inside_of_another_names_both():
    thread = Thread()

    def inner():
        return called(thread, lambda: "FSDP unit fc: weight", lambda: thread.text)

    found = called(thread, lambda: "pipeline stage 1, forward of micro-batch 2", inner)
    assert found == "FSDP unit fc: weight, in pipeline stage 1, forward of micro-batch 2"
    assert thread.text == ""


def test_a_caller_without_a_name_leaves_the_one_around_it():
    thread = Thread()

    def text_of():
        raise AttributeError("another version of PyTorch")

    assert called(thread, lambda: "outer", lambda: called(thread, text_of, lambda: thread.text)) == "outer"
    assert not called(thread, text_of, lambda: thread.text)


def test_an_exception_passes_and_the_name_ends():
    thread = Thread()

    def body():
        raise KeyError("the program's own")

    with pytest.raises(KeyError, match="own"):
        called(thread, lambda: "unit", body)
    assert thread.text == ""


def test_what_a_pipeline_exchanges_is_named_by_its_memory():
    named = []

    class Stage:
        stage_index, num_stages = 2, 4

        def get_fwd_send_ops(self, fwd_chunk_id):
            return [types.SimpleNamespace(tensor=f"x{fwd_chunk_id}", peer=peer) for peer in (1, 7)]

        def _resolve_peer_global_rank(self, stage):
            return stage % 2

    library = types.SimpleNamespace(memory_of_caller=lambda tensor, text: named.append((tensor, text)))
    undo = callers._watch_exchange(library, Stage, "get_fwd_send_ops", "forward")
    assert len(Stage().get_fwd_send_ops(0)) == len(Stage().get_fwd_send_ops(fwd_chunk_id=5)) == 2
    undo()
    begin = "pipeline stage 2, forward of micro-batch"
    assert named == [
        (f"x{number}", f"{begin} {number}, to {peer}") for number in (0, 5) for peer in ("stage 3", "rank 7")
    ]


def test_long_lists_are_shortened():
    assert callers._unit("", ["a", "b"]) == "FSDP unit: a, b"
    assert callers._unit("blocks.0", [f"blocks.0.p{i}" for i in range(11)]).endswith("p6, p7 and 3 more")
