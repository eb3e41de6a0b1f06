"""Files of models: the types they may hold, and what is loaded to save and to open them."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from labeldp.learning.tables import learn, open_model
from labeldp.learning.tables._files import _TRUSTED
from labeldp.release import public_columns

GOLDEN = Path(__file__).parents[2] / "golden" / "command"


@pytest.mark.parametrize("name", _TRUSTED)
def test_a_trusted_name_is_that_of_the_thing_itself(name):
    """Each name that files may hold can be imported, and is what skops writes of the imported thing."""
    module, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(module), attribute)
    assert f"{found.__module__}.{found.__qualname__}" == name
    assert "._" not in name or not name.startswith("labeldp.")


def test_boosting_does_not_load_pytorch(tmp_path):
    """A new process that learns, saves and opens a model of boosting has not loaded PyTorch, which takes seconds."""
    pytest.importorskip("torch", reason="nothing would be loaded without it")
    code = f"""
import sys
from labeldp.learning.tables import learn, open_model
path = learn({str(GOLDEN / "randomized-response")!r}, model="boosting").model.save({str(tmp_path / "model.skops")!r})
open_model(path)
print(*sorted({{"skops", "torch", "sklearn.externals.array_api_compat.torch"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["skops"]


def test_a_search_tree_in_a_file_is_not_used(tmp_path):
    """Neighbours are searched in a tree that is built when the file is opened, whatever tree the file holds."""
    folder = GOLDEN / "laplace"
    model = learn(folder, model="neighbours", features=["age"]).model
    expected = model.predict(public_columns(folder))
    index = model.estimator[-1].index_
    state = list(index._tree.__getstate__())
    state[1] = np.zeros_like(state[1])  # all rows are taken for the first
    index._tree.__setstate__(tuple(state))
    assert not np.allclose(model.predict(public_columns(folder)), expected)
    opened = open_model(model.save(tmp_path / "forged.skops"))
    np.testing.assert_array_equal(opened.predict(public_columns(folder)), expected)
