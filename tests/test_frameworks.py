"""The examples of training loops and trainers of other libraries, each against the library itself."""

import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from accelerate.state import AcceleratorState
from sklearn.datasets import load_digits
from torch import nn

from labeldp import Classes, Curator
from labeldp.learning.torch import TorchClassifier
from labeldp.release.curator import _drawing

FOLDER = Path(__file__).parent.parent / "examples/frameworks"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NEEDS = {
    "with_accelerate.py": "accelerate",
    "with_lightning.py": "lightning",
    "with_skorch.py": "skorch",
    "with_trainer.py": "transformers",
}
ROWS = 1500


@pytest.fixture(scope="module")
def usual():
    """Accuracy of our own trainer on the same rows, with labels of its own draw."""
    images, digits = load_digits(return_X_y=True)
    release = Curator(digits[:ROWS], Classes(range(10))).randomize(epsilon=4.0)
    model = TorchClassifier(nn.Linear(64, 10), optimizer="adam", learning_rate=0.01, epochs=20, batch_size=64)
    model.fit(images[:ROWS] / 16, release)
    return float(np.mean(model.predict(images[ROWS:] / 16) == digits[ROWS:]))


@pytest.fixture
def fresh_settings():
    """What accelerate keeps for a whole process is as in a new one, and does not reach other tests."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def test_each_framework_has_an_example_of_thirty_lines():
    """A user finds each of them, and reads it at a glance."""
    assert {path.name for path in EXAMPLES} == {"own_loop.py", "loading_processes.py", "split_rows.py", *NEEDS}
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 30 for path in EXAMPLES)


@pytest.mark.usefixtures("as_users_call", "fresh_settings")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_learns_from_one_draw(path, usual, tmp_path, monkeypatch, capsys):
    """Each label is drawn once, over all epochs and processes, and the network is as good as that of our own trainer.

    Accuracies over draws have a standard deviation of about 0.015, on 297 test images.
    """
    if path.name in NEEDS:
        pytest.importorskip(NEEDS[path.name])
    drawn, draw = [], _drawing.draw
    monkeypatch.setattr(
        _drawing, "draw", lambda channel, codes, *rest: drawn.append(len(codes)) or draw(channel, codes, *rest)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the frameworks, about their defaults
        runpy.run_path(str(path), run_name="__main__")
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert last.startswith("accuracy ")
    assert abs(float(last.split()[-1]) - usual) < 0.09
    assert sum(drawn) == ROWS
