"""A worker that is killed in the middle of a batch, and two engines of one program."""


def test_a_worker_that_is_killed_leaves_what_it_wrote(generate, sonde, steps_of, place):
    dump = place / "killed"
    run = generate("eager", out=dump, fault="kill", options=("--saved-data", "full"))
    assert run.status != 0
    assert "killed" in run.stderr, run.stderr[-3000:]
    steps = steps_of(dump)
    assert len(steps) >= 2 and not steps[-1]["ended"] and all(step["ended"] for step in steps[:-1]), steps


def test_two_engines_of_one_program_have_a_dump_each(generate, steps_of, place):
    """Both workers are rank 0 of their engine."""
    dump = place / "two"
    run = generate("eager", "two", out=dump)
    assert run.status == 0 and len(run.tokens) == 2, run.stderr[-3000:]
    assert f"{dump}/rank_0 belongs to another process of rank 0; {dump}/rank_1 is the next free one" in run.stderr
    for rank in (0, 1):
        requests = {part["request"].partition("-")[0] for step in steps_of(dump, rank) for part in step["requests"]}
        assert requests == {"0", "1"}
