"""An elastic agent: all ranks stop, a new incarnation begins, and one trace tells all of it."""

import json
from dataclasses import replace

import pytest

import simulator
from simulator.cluster import get_cluster
from simulator.trace import Trace, chrome, flight_recorder
from tests.restarts import programs


def run(fn, world_size, faults, tmp_path=None, **options):
    args = () if tmp_path is None else (str(tmp_path),)
    options = {"restarts": 1, "echo": False, **options}
    return simulator.run(fn, world_size, args=args, faults=faults, **options)


def test_a_killed_rank_is_a_new_incarnation_with_torchruns_environment(tmp_path):
    done = run(programs.counts, 4, "kill(rank=2, step=3)", tmp_path, restarts=2)
    assert done.ok
    assert done.results == [[2, 4, 1, 2, 4, rank] for rank in range(4)]
    assert [(one.world_size, one.outcome.name, one.choice) for one in done.incarnations] == [
        (4, "PeerLost", "restart"),
        (4, "Completed", ""),
    ]
    assert done.lost == (2,)  # saved after step 1, killed at step 3
    assert done.killed == (2,)


def test_one_trace_with_incarnations_in_which_time_goes_on(tmp_path):
    machine = replace(get_cluster("a100-80gb"), restart_delay_s=7.0, failure_detection_s=0.25)
    done = run(programs.counts, 3, "kill(rank=2, step=3)", tmp_path, cluster=machine)
    killed = next(e.end_ns for e in done.trace if e.op == "kill")
    first, second = ([e for e in done.trace if e.incarnation == i] for i in (0, 1))
    assert max(e.end_ns for e in first) == killed + 250_000_000  # detected, and told to the survivors
    assert min(e.issue_ns for e in second) == killed + 7_250_000_000
    assert {e.incarnation for e in done.trace} == {0, 1}
    saved = Trace.load(done.save(tmp_path / "trace.jsonl"))
    assert saved.digest == done.trace.digest
    assert saved.header["world_sizes"] == [3, 3]


def test_one_incarnation_is_a_trace_of_its_own(tmp_path):
    done = run(programs.counts, 3, "kill(rank=2, step=3)", tmp_path, policy="shrink")
    parts = [done.trace.incarnation(number) for number in (0, -1)]
    assert [part.world_size for part in parts] == [3, 2]
    assert sum(map(len, parts)) == len(done.trace)
    assert [simulator.diagnose(part).kind for part in parts] == ["dead rank", "none"]
    with pytest.raises(simulator.TraceError, match="no incarnation 2"):
        done.trace.incarnation(2)
    assert len(flight_recorder.save(done.trace, tmp_path / "dumps")) == 2
    bars = [bar for bar in json.loads(chrome.export(done.trace))["traceEvents"] if bar["name"] == "step 2"]
    assert [bar["args"].get("incarnation", 0) for bar in bars] == [0, 1, 0, 1, 0]  # ranks 0, 0, 1, 1, 2


def test_the_story_is_told_by_incarnation(tmp_path):
    told = run(programs.counts, 4, "kill(rank=2, step=3)", tmp_path).outcome.explain()
    assert told.startswith("Completed: 4 ranks finished after")
    assert "incarnation 0 (4 ranks, 0.000 to" in told
    assert "Rank 2 was killed at" in told
    assert "-> restart with 4 ranks after 10 virtual s" in " ".join(told.split())
    assert "1 restart; finished steps that were computed again: 2" in told
    assert "restarts=1)" in told.splitlines()[-1]


def test_shrinking_goes_on_without_the_rank_that_failed(tmp_path):
    plan = "kill(rank=2, step=3); kill(rank=0, step=4, incarnation=1)"
    done = run(programs.counts, 4, plan, tmp_path, restarts=2, policy="shrink")
    assert [one.world_size for one in done.incarnations] == [4, 3, 2]
    assert done.fired == tuple(plan.split("; "))
    assert done.ok
    assert done.trace.world_size == 4
    assert done.timeline().svg()


def test_a_policy_sees_exits_and_progress_and_decides(tmp_path):
    seen = []

    def decide(exits, progress):
        seen.append((exits, progress))
        return ("shrink", 2) if progress.incarnation == 0 else "grow"

    done = run(programs.counts, 3, "kill(rank=2, step=3); kill(rank=1, step=5)", tmp_path, restarts=2, policy=decide)
    assert [one.world_size for one in done.incarnations] == [3, 2, 3]
    (exits, progress), (_, later) = seen
    assert [(e.rank, e.why, e.step, e.is_culprit) for e in exits] == [
        (0, "error", 3, False),
        (1, "error", 3, False),
        (2, "killed", 3, True),
    ]
    assert (progress.step, progress.lost, progress.restarts_left, progress.outcome.name) == (2, (), 2, "PeerLost")
    assert (later.world_size, later.first_world_size, later.lost) == (2, 3, (2,))
    assert done.lost == (2, 4)


def test_giving_up_ends_the_job(tmp_path):
    done = run(programs.counts, 3, "kill(rank=2, step=3)", tmp_path, restarts=5, policy=lambda exits, _: "give_up")
    assert done.outcome.name == "PeerLost"
    assert "-> give up" in " ".join(done.outcome.explain().split())


@pytest.mark.parametrize(
    ("answer", "words"), [("again", "use restart, shrink"), (("shrink", 0), "1 to 64"), (("restart", 2), "a pair")]
)
def test_a_policy_that_answers_nonsense_is_told_what_it_can_answer(answer, words, tmp_path):
    with pytest.raises(simulator.UsageError, match=words):
        run(programs.counts, 2, "kill(rank=1, step=1)", tmp_path, policy=lambda exits, _: answer)


@pytest.mark.parametrize(
    ("options", "words"), [({"restarts": -1}, "0 or more"), ({"policy": "explode"}, "'restart', 'shrink'")]
)
def test_restarts_and_policy_are_checked(options, words):
    with pytest.raises(simulator.UsageError, match=words):
        simulator.run(programs.counts, 2, **options)


def test_used_up_restarts_end_with_the_last_failure(tmp_path):
    done = run(programs.counts, 3, "kill(rank=1, step=1); kill(rank=1, step=1)", tmp_path)
    assert done.outcome.name == "PeerLost"
    assert done.killed == (1, 1)
    assert not done.inconclusive
    with pytest.raises(simulator.PeerLost, match="incarnation 1"):
        done.raise_for_outcome()


def test_a_fault_of_an_incarnation_that_never_came_makes_the_run_inconclusive(tmp_path):
    done = run(programs.counts, 2, "kill(rank=1, step=3); kill(rank=0, step=5, incarnation=2)", tmp_path)
    assert done.outcome.name == "Completed"
    assert done.not_fired == ("kill(rank=0, step=5, incarnation=2)",)
    assert done.inconclusive


def test_a_fault_during_recovery(tmp_path):
    done = run(programs.counts, 3, "kill(rank=2, step=3); kill(rank=0, phase=load)", tmp_path, restarts=2)
    assert done.ok
    assert [len(one.entered) for one in done.incarnations] == [4, 1, 4]  # the other two had begun a step


def test_the_agent_stops_ranks_that_would_go_on():
    done = run(programs.goes_on_alone, 3, "kill(rank=2, step=1)")
    assert done.ok
    assert [line for _, line in done.output] == ["rank 0 heard SIGTERM", "rank 1 heard SIGTERM"]
    assert [exit.why for exit in done.incarnations[0].exits] == ["stopped", "stopped", "killed"]
    alone = run(programs.goes_on_alone, 3, "kill(rank=2, step=1)", restarts=0)
    assert alone.results == [[3], [3], None]  # without an agent they may


def test_a_hang_costs_the_timeout_and_then_the_job_goes_on(tmp_path):
    done = run(programs.counts, 3, "hang(rank=1, step=3)", tmp_path)
    assert done.ok
    assert done.incarnations[0].outcome.name == "CollectiveTimeout"
    assert done.trace.end_ns > 1_800_000_000_000


@pytest.mark.parametrize(("duration_s", "name"), [(1803, "Completed"), (3000, "CollectiveTimeout")])
def test_a_partition_lasts_over_a_restart_until_it_heals(duration_s, name, tmp_path):
    plan = f"partition(sets=((0,), (1,)), step=3, duration_s={duration_s})"
    done = run(programs.counts, 2, plan, tmp_path, timeout_s=1000.0 if name != "Completed" else 1800.0)
    assert done.outcome.name == name


def test_five_runs_one_digest(tmp_path):
    plan = "kill(rank=2, step=3); slow(rank=1, factor=3); preempt(rank=0, step=4, grace_s=1, incarnation=1)"
    runs = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        runs.append(run(programs.counts, 4, plan, folder, restarts=2, policy="shrink"))
    assert len({one.trace.digest for one in runs}) == 1
    assert len({json.dumps([one.results, one.lost, one.outcome.history]) for one in runs}) == 1
    assert not runs[0].inconclusive
    assert runs[0].trace.digest != run(programs.counts, 4, plan, folder, restarts=3, policy="shrink").trace.digest
