"""Label moments through the curator: charged before they are drawn, kept with their law, and verified."""

import numpy as np
import pytest

from labeldp import Answer, Classes, Curator, LabelMoments, NoisyArgmax, NoisyHistogram, verify
from labeldp.errors import BudgetError, InputError
from labeldp.mechanisms.queries import _moments

SPACE = Classes(["no", "yes"])
LABELS = ["no", "yes", "yes", "no"] * 25
FEATURES = np.random.default_rng(0).normal(size=(100, 3))


def moments(epsilon=1.0, delta=1e-6, rows=slice(None)):
    """Moments of some rows."""
    return LabelMoments(SPACE, epsilon, delta, FEATURES[rows])


def test_the_first_request_sets_the_budget():
    """It is what was asked for, with its delta, and a second request is beyond it."""
    curator = Curator(LABELS, SPACE)
    answer = curator.answer(moments())
    assert (answer.guarantee.trust, answer.guarantee.delta, answer.rows) == ("central", 1e-6, 100)
    assert curator.spent == (answer.guarantee.epsilon, 1e-6)
    assert 0.999 < answer.guarantee.epsilon <= 1.0
    with pytest.raises(BudgetError, match="budget exceeded"):
        curator.answer(moments(epsilon=0.01))
    with pytest.raises(BudgetError, match="budget exceeded"):
        curator.answer(NoisyHistogram(SPACE, 0.5))


def test_a_budget_of_epsilon_and_delta_is_honoured(monkeypatch):
    """Both add up over rows, and nothing is drawn beyond either."""
    curator = Curator(LABELS, SPACE, budget=(2.0, 2e-6))
    curator.answer(moments(rows=slice(0, 50)), rows=slice(0, 50))
    curator.answer(moments(rows=slice(50, 100)), rows=slice(50, 100))
    curator.answer(moments())
    monkeypatch.setattr(_moments, "rounded_normal", lambda *_: pytest.fail("it drew"))
    for query in (moments(epsilon=0.1, delta=1e-9), moments(delta=1e-5)):
        with pytest.raises(BudgetError):
            curator.answer(query)
    with pytest.raises(BudgetError):
        Curator(LABELS, SPACE, budget=5.0).answer(moments())  # without a delta to spend


def test_a_unit_of_several_rows_has_the_epsilon():
    """The deviation grows with the labels of a unit, and rho stays about the same."""
    alone = Curator(LABELS, SPACE).answer(moments())
    answer = Curator(LABELS, SPACE, units=np.arange(100) // 4).answer(moments())
    assert answer.law["labels_of_a_unit"] == "4"
    assert answer.guarantee.unit == "unit"
    assert int(answer.law["deviation"]) == pytest.approx(4 * int(alone.law["deviation"]), rel=1e-6)
    assert answer.guarantee.rho == pytest.approx(alone.guarantee.rho, rel=1e-6)
    assert answer.standard_error == pytest.approx(4 * alone.standard_error, rel=1e-6)


def test_an_answer_is_kept_and_verified(tmp_path):
    """What is loaded is what was answered, and a certificate that claims less noise or more privacy fails."""
    answer = Curator(LABELS, SPACE, name="ill").answer(moments())
    folder = answer.save(tmp_path / "shared")
    again = Answer.load(folder)
    assert np.array_equal(again.value, answer.value)
    assert again.guarantee == answer.guarantee
    assert (again.standard_error == answer.standard_error).all()
    assert verify(folder).holds
    file = folder / "_certificate.json"
    text = file.read_text(encoding="utf-8")
    for field in ("deviation", "labels_of_a_unit", "sensitivity_squared"):
        value = answer.law[field]
        file.write_text(text.replace(f'"{field}": "{value}"', f'"{field}": "{2 * int(value)}"'), encoding="utf-8")
        assert not verify(folder).holds


def test_answers_say_how_large_their_noise_is():
    """Where it is on each entry; classes have none."""
    curator = Curator(LABELS, SPACE, budget=3.0)
    assert curator.answer(NoisyHistogram(SPACE, 1.0)).standard_error == pytest.approx(2.799, abs=1e-3)
    with pytest.raises(InputError, match="found that to noisy-argmax"):
        _ = curator.answer(NoisyArgmax(SPACE, 1.0)).standard_error


def test_an_answer_comes_close_where_the_noise_is_small():
    """At a large epsilon the sums are those of the labels."""
    answer = Curator(LABELS, SPACE).answer(moments(epsilon=300.0))
    exact = FEATURES.T @ (np.array(LABELS)[:, None] == ["no", "yes"])
    assert np.abs(answer.value - exact).max() < 8 * answer.standard_error.max() < 3
