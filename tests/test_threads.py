"""The number of threads that a computation takes."""

import os

import numpy as np
import pytest

from labeldp import Classes, Curator, _threads
from labeldp._threads import idle_threads, threads_to_fit


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A function that sets the processors, those this process may use, the load, and the quota."""

    def are(every, usable, load, quota="max 100000", running=None):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: every)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(usable), raising=False)
        monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
        (tmp_path / "cpu.max").write_text(quota)
        monkeypatch.setattr(_threads, "_QUOTA_FILE", str(tmp_path / "cpu.max"))
        (tmp_path / "loadavg").write_text(f"{load} 0.00 0.00 {running}/300 4711" if running else "nonsense")
        monkeypatch.setattr(_threads, "_LOAD_FILE", str(tmp_path / "loadavg"))

    return are


@pytest.mark.parametrize(
    ("given", "threads"),
    [
        ((8, 8, 0.2), 8),
        ((8, 8, 1.0), 8),
        ((8, 8, 6.0), 3),
        ((8, 8, 40.0), 1),
        ((64, 4, 10.0), 4),
        ((64, 64, 0.0, "200000 100000"), 2),
        ((64, 64, 0.0, "50000 100000"), 1),
        ((2, 2, 0.0, "nonsense"), 2),
        ((16, 16, 16.0, "max 100000", 1), 16),
        ((16, 16, 16.0, "max 100000", 5), 12),
        ((16, 16, 3.0, "max 100000", 9), 14),
    ],
    ids=["idle", "own", "some", "busy", "affinity", "quota", "half", "nonsense", "own before", "fewer now", "more now"],
)
def test_threads_are_the_idle_processors_of_this_process(machine, given, threads):
    """Those it may use, less the load of others, and never none."""
    machine(*given)
    assert idle_threads() == threads
    assert threads_to_fit(1_000_000) == threads
    assert threads_to_fit(1_000) == 1


@pytest.mark.parametrize(("text", "threads"), [("3", 3), ("2,1", 2), ("", 5), ("0", 5), ("many", 5)])
def test_the_environment_decides_first(machine, monkeypatch, text, threads):
    """``OMP_NUM_THREADS`` is taken where it is a number, whatever the load."""
    machine(5, 5, 0.0)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert idle_threads() == threads


def test_boosting_takes_as_many_and_the_same_trees(machine, monkeypatch):
    """LightGBM is told the number of threads, which changes nothing of the model."""
    lightgbm = pytest.importorskip("lightgbm")
    from labeldp.learning.sklearn import BoostingClassifier  # noqa: PLC0415 (an extra)

    machine(2, 2, 0.0)
    monkeypatch.setattr(_threads, "_FEW_FITTED", 0)
    wanted, real, models = list[int](), lightgbm.train, set[str]()
    monkeypatch.setattr(
        lightgbm,
        "train",
        lambda settings, *rest, **more: wanted.append(settings["num_threads"]) or real(settings, *rest, **more),
    )
    chance = np.random.default_rng(0)
    features = chance.normal(size=(4_000, 3))
    labels = np.where(features[:, 0] + features[:, 1] * features[:, 2] > 0.0, "yes", "no")
    release = Curator(labels, Classes(["no", "yes"])).randomize(epsilon=3.0)
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        models.add(BoostingClassifier(rounds=20).fit(features, release).model_.partition("parameters:")[0])
    assert set(wanted) == {1, 2}
    assert len(models) == 1
