"""ChannelLoss in loops of one's own: every channel by its table, any loader, and what does not fit together."""

import copy
import dataclasses
import math
import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split

from labeldp import Classes, Curator, Interval, PriorResponse, RandomizedResponse, Release, SubsetResponse
from labeldp.errors import InputError, NotTrueLabelsError, RowsError
from labeldp.learning.losses import Latent
from labeldp.learning.torch import NETWORK_METHODS, ChannelLoss
from labeldp.privacy.channels import (
    CHANNELS,
    BinChannel,
    BitChannel,
    CandidateChannel,
    CandidateSubsetChannel,
    ClusterChannel,
    CoarseningChannel,
    GroupedChannel,
    GroupedNumberChannel,
    MatrixChannel,
    ProjectiveChannel,
    ResponseChannel,
    SubsetChannel,
    laplace_channel,
    one_bit_channel,
    pack,
    row_arrays,
)

K = 4
SPACE = Classes(["a", "b", "c", "d"])
CANDIDATES = pack(np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 0]], dtype=np.bool_))
HALF = np.array([0, 1, 1, 0], dtype=np.int32)
FIRSTS = pack(np.array([[1, 0, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 1]], dtype=np.bool_))
SHARES = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]])


def bins():
    """Three bins of six grid points."""
    response = ResponseChannel.at(3, 1.0)
    return BinChannel(6, (1 << 31, 1 << 33, 5 << 32), response.keep, response.other, (0, 2, 3))


#: Channels of four rows; each kind of the package is among them.
CASES = {
    "response": lambda: ResponseChannel.at(K, 1.0),
    "matrix": lambda: MatrixChannel.of([[0.4 if one == other else 0.2 for one in range(K)] for other in range(K)]),
    "bits": lambda: BitChannel.independent(K, 1.0),
    "symmetric bits": lambda: BitChannel.symmetric(K, 2.0),
    "subset": lambda: SubsetChannel.at(K, 2, 1.0),
    "subset of many": lambda: SubsetChannel.at(13, 1, 1.0),  # too many classes for a table
    "projective": lambda: ProjectiveChannel.at(7, 2, 1.0),
    "candidates": lambda: CandidateChannel.at(K, 1.0, CANDIDATES),
    "candidate subset": lambda: CandidateSubsetChannel.at(K, 1.0, CANDIDATES),
    "coarsening": lambda: CoarseningChannel.at(K, 1.0, FIRSTS),
    "cluster": lambda: ClusterChannel.at(SHARES, 1.0, HALF),
    "resampling cluster": lambda: ClusterChannel.redrawing(SHARES, 0.1, 0.5, HALF),
    "groups": lambda: GroupedChannel(K, (ResponseChannel.at(K, 2.0), ResponseChannel.at(K, 1.0)), (1, 2), HALF),
    "groups of sets": lambda: GroupedChannel(
        K, (SubsetChannel.at(K, 1, 2.0), SubsetChannel.at(K, 2, 1.0)), (1, 2), HALF
    ),
    "groups of hyperplanes": lambda: GroupedChannel(
        7, (ProjectiveChannel.at(7, 2, 2.0), ProjectiveChannel.at(7, 3, 1.0)), (1, 2), HALF
    ),
    "grid": lambda: laplace_channel(6, 1.0),
    "one bit": lambda: one_bit_channel(6, 1.0),
    "bins": bins,
    "groups of numbers": lambda: GroupedNumberChannel(
        6, (laplace_channel(6, 1.0), one_bit_channel(6, 0.5)), (1, 2), HALF
    ),
}


def numeric(channel):
    """True for channels of numbers."""
    return channel.form == "number"


@pytest.fixture
def released(make_release):
    """A function that makes the release of a channel's given outcomes, with all rows of the channel."""

    def make(channel, codes):
        space = Interval(0, channel.classes - 1, 1) if numeric(channel) else Classes(range(channel.classes))
        return make_release(codes, channel, space)

    return make


def targets(release):
    """The targets as a tensor."""
    return torch.from_numpy(release.targets())


def test_every_kind_of_channel_has_a_case():
    """A kind that the package gains is tested here too."""
    assert {type(make()) for make in CASES.values()} == set(CHANNELS.own.values())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", ["likelihood", "posterior"])
def test_a_loss_is_minus_the_log_probability_of_what_was_released(name, method, released):
    """For all outcomes of each row, the gradient is that of -log sum_j p_j P(outcome | j), whatever batch a row is in.

    The loss itself differs from it by a constant for the row.
    """
    channel = CASES[name]()
    rows = range(4) if row_arrays(channel) else range(1)
    tables = [channel.table(row) for row in rows]
    of_row = np.repeat(np.arange(len(tables)), [len(table.outcomes) for table in tables])
    chance = np.concatenate([table.matrix.T for table in tables])
    release = released(channel.take(of_row), np.concatenate([table.outcomes for table in tables]))
    order = np.random.default_rng(0).permutation(len(release))
    loss = ChannelLoss(release, method, reduction="none")
    found, expected = [], []
    for seed in (1, 2):
        start = np.random.default_rng(seed).normal(scale=2.0, size=(len(release), channel.classes))
        one, two = (torch.tensor(start, requires_grad=True) for _ in range(2))
        of_loss = loss(one[order], targets(release)[order])
        of_table = -(torch.softmax(two, dim=1) * torch.tensor(chance)).sum(dim=1).log()
        of_loss.sum().backward()
        of_table.sum().backward()
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-5, atol=1e-6)
        found.append(of_loss.detach())
        expected.append(of_table.detach()[order])
    if method == "likelihood":
        torch.testing.assert_close(found[0] - found[1], expected[0] - expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["likelihood", "posterior"])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_the_largest_epsilon_leaves_losses_and_gradients_finite(make_release, method, size):
    """Bits can have a likelihood that single precision does not hold; the gradient is that of the released class."""
    channel = BitChannel(K, (1 << 64) - 1, 1)
    release = make_release(np.array([[2], [4], [8]], dtype=np.uint8), channel, SPACE)  # sets of one class: 1, 2 and 3
    start = size * np.random.default_rng(5).normal(size=(3, K))
    logits = torch.tensor(start, dtype=torch.float32, requires_grad=True)
    loss = ChannelLoss(release, method, reduction="sum")(logits, targets(release))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()
    if size == 1.0:
        expected = torch.softmax(logits.detach(), dim=1) - torch.eye(K)[1:]
        torch.testing.assert_close(logits.grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name, make in CASES.items() if numeric(make())])
def test_predictions_of_numeric_labels(name, released):
    """A prediction has the likelihood of ``Latent``, or the squared difference from the released number."""
    channel = CASES[name]()
    if row_arrays(channel):
        channel = channel.take(np.array([0, 1]))
    codes = np.arange(2) % 2
    release = released(channel, codes.astype(np.int16))
    predictions = torch.tensor([1.3, 7.9], dtype=torch.float64, requires_grad=True)
    loss = ChannelLoss(release, deviation=1.5, reduction="none")(predictions, targets(release))
    loss.sum().backward()
    value, slope = Latent.of(release).at(predictions.detach().numpy(), 1.5)
    np.testing.assert_allclose(loss.detach().numpy(), -value, rtol=1e-5)
    np.testing.assert_allclose(predictions.grad.numpy(), -slope, rtol=1e-5, atol=1e-9)
    for shape in ((2,), (2, 1)):
        if name != "bins":
            squares = ChannelLoss(release, "unbiased", reduction="none")(predictions.reshape(shape), targets(release))
            np.testing.assert_allclose(
                squares.detach().numpy(), (predictions.detach().numpy() - release.numbers()) ** 2, rtol=1e-5
            )


def test_posterior_targets_of_predictions_move_them_as_the_likelihood_does(released):
    """Also where most cells of the range have no probability that single precision holds."""
    channel = laplace_channel(6, 1.0)
    release = released(channel, channel.table().outcomes)
    found = []
    for method in ("likelihood", "posterior"):
        predictions = torch.linspace(-2.0, 7.0, len(release)).requires_grad_()
        ChannelLoss(release, method, deviation=0.3, reduction="sum")(predictions, targets(release)).backward()
        found.append(predictions.grad)
    assert found[0].isfinite().all()
    assert found[0].abs().max() > 0.01
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@dataclass(frozen=True, eq=False)
class WithOwnOdds(ResponseChannel):
    """A channel of somebody else, whose rows have parameters that are neither candidates nor whole numbers."""

    ratio: np.ndarray = dataclasses.field(kw_only=True)
    large: np.ndarray = dataclasses.field(kw_only=True)
    kind: ClassVar[str] = "own-odds"

    def levels(self, released):
        """A ratio for each row."""
        return dataclasses.replace(super().levels(released), high=self.ratio * self.large)


def test_parameters_of_foreign_rows_travel_with_the_targets(make_release):
    """Real numbers and whole numbers come back exactly, row by row, in any order."""
    given = ResponseChannel.at(K, 1.0)
    ratio, large = np.array([1.5, 2.0 + 1e-12, 3.0]), np.array([1, 2, 4], dtype=np.uint8)
    channel = WithOwnOdds(K, given.keep, given.other, ratio=ratio, large=large)
    release = make_release(np.array([3, 0, 1], dtype=np.int32), channel, SPACE)
    back = release.of_targets(release.targets()[[2, 0]])
    assert back.channel.ratio.tolist() == [3.0, 1.5]
    assert back.channel.large.dtype == np.uint8
    logits = torch.randn(3, K, dtype=torch.float64)
    hit = (release.likelihood() * torch.softmax(logits, dim=1).numpy()).sum(axis=1)
    found = ChannelLoss(release, reduction="none")(logits, targets(release))
    np.testing.assert_allclose(found.numpy(), -np.log(hit), rtol=1e-6)
    with pytest.raises(InputError, match="parameters of rows from 0"):
        make_release(release.codes, dataclasses.replace(channel, large=np.array([1, 2, 1 << 40])), SPACE).targets()


# ------------------------------------------------------------------------------------------------ loaders and loops


@pytest.fixture(scope="module", params=["response", "subset", "prior"])
def release(request):
    """Released labels of 120 rows."""
    rng = np.random.default_rng(0)
    labels = rng.choice(SPACE.values, 120)
    randomizer = {
        "response": lambda: RandomizedResponse(SPACE, 2.0),
        "subset": lambda: SubsetResponse(SPACE, 2.0),
        "prior": lambda: PriorResponse(SPACE, 2.0, rng.dirichlet(np.ones(K), 120)),
    }[request.param]()
    return Curator(labels, SPACE).randomize(randomizer)


@pytest.fixture(scope="module")
def logits():
    """What a network says of each of 120 rows."""
    return torch.from_numpy(np.random.default_rng(1).normal(size=(120, K)))


def each_loss(release, logits, data):
    """The losses of the rows of a data set of (row number, targets), batch by batch."""
    loss, found = ChannelLoss(release, reduction="none"), {}
    for rows, batch in data:
        found |= dict(zip(rows.tolist(), loss(logits[rows], batch).tolist(), strict=True))
    return found


def test_any_loader_batches_the_targets(release, logits):
    """Workers, shuffling, splits, subsets and parts of the release give each row the same loss."""
    rows = TensorDataset(torch.arange(120), targets(release))
    everything = ChannelLoss(release, reduction="none")(logits, targets(release)).tolist()
    fit, held = random_split(rows, [0.7, 0.3], torch.Generator().manual_seed(0))
    loaders = {
        120: DataLoader(rows, batch_size=7, shuffle=True),
        84: DataLoader(fit, batch_size=50),
        36: DataLoader(held, batch_size=1),
        3: DataLoader(Subset(rows, [5, 99, 7]), batch_size=2),
    }
    for count, loader in loaders.items():
        found = each_loss(release, logits, loader)
        assert len(found) == count
        assert all(loss == pytest.approx(everything[row], rel=1e-6) for row, loss in found.items())
    part = release[60:]
    np.testing.assert_array_equal(part.targets(), release.targets()[60:])
    assert ChannelLoss(part)(logits[:60], targets(release[:60])).item() == pytest.approx(np.mean(everything[:60]))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions_are_over_rows(release, logits, reduction):
    """The mean and the sum are those of the losses of rows."""
    each = ChannelLoss(release, reduction="none")(logits, targets(release))
    found = ChannelLoss(release, reduction=reduction)(logits, targets(release))
    assert found.item() == pytest.approx(getattr(each, reduction)().item())


def test_targets_in_other_whole_numbers_are_the_same(release, logits):
    """A loader that makes lists of them, and so 64-bit numbers, gives the same loss."""
    found = ChannelLoss(release)(logits, torch.tensor(release.targets().tolist()))
    torch.testing.assert_close(found, ChannelLoss(release)(logits, targets(release)))


def test_a_loss_is_copied_pickled_and_left_out_of_checkpoints(release, logits):
    """Copies give the same numbers; the state of a module that holds one is that of its weights."""
    loss = ChannelLoss(release, reduction="sum")
    expected = loss(logits, targets(release))
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):  # noqa: S301 (of this test)
        torch.testing.assert_close(other(logits, targets(release)), expected)
    assert not loss.state_dict()
    assert not list(loss.parameters())
    assert "likelihood" in repr(loss)


def test_a_stored_release_has_the_same_targets(release, tmp_path):
    """Its mark is in the certificate, so a loss of one process reads the targets of another."""
    loaded = Release.load(release.save(tmp_path / "shared"))
    np.testing.assert_array_equal(loaded.targets(), release.targets())


def test_class_weights_weigh_the_unbiased_loss(make_release):
    """Over the outcomes of a label the mean loss is its weight times the cross entropy."""
    channel = ResponseChannel.at(K, 1.0)
    table, weights = channel.table(), np.array([1.0, 2.0, 0.5, 3.0])
    release = make_release(table.outcomes, channel, SPACE)
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.1]], dtype=torch.float64).expand(len(release), K)
    losses = ChannelLoss(release, "unbiased", class_weights=weights, reduction="none")(logits, targets(release))
    expected = -weights * torch.log_softmax(logits[0], dim=0).numpy()
    np.testing.assert_allclose(table.matrix @ losses.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("method", NETWORK_METHODS)
def test_one_output_for_two_classes_is_the_log_odds_of_the_second(make_release, method):
    """It gives the loss of two outputs of which the first is zero, in either shape."""
    release = make_release(np.array([0, 1, 1], dtype=np.int32), ResponseChannel.at(2, 1.0), Classes(["no", "yes"]))
    odds = torch.tensor([0.3, -2.0, 5.0])
    loss = ChannelLoss(release, method, reduction="none")
    expected = loss(torch.stack([torch.zeros(3), odds], dim=1), targets(release))
    for outputs in (odds, odds[:, None]):
        torch.testing.assert_close(loss(outputs, targets(release)), expected)


# -------------------------------------------------------------------------------------------------- what is refused


def refused(release, outputs, batch, match, method="likelihood", **more):
    """The loss of a batch is refused with a message."""
    with pytest.raises(InputError, match=match):
        ChannelLoss(release, method, **more)(outputs, batch)


@pytest.mark.usefixtures("as_users_call")
def test_outputs_of_another_shape_are_refused(release):
    """The number of outputs that the network needs is named, for classes and for predictions."""
    refused(release, torch.zeros(120, 3), targets(release), r"shape \(120, 4\).*found \(120, 3\); give the network 4")
    refused(release, torch.zeros(120), targets(release), r"found \(120,\)")
    refused(release, torch.zeros(119, K), targets(release), r"found \(119, 4\)")
    costs = Curator([1.0, 2.0], Interval(0, 10, 1)).randomize(epsilon=1.0)
    refused(costs, torch.zeros(2, 1), targets(costs), r"\(2, 11\).*or pass deviation= for a single prediction")
    refused(costs, torch.zeros(2, 11), targets(costs), r"shape \(2, 1\), a prediction for each row", "unbiased")


@pytest.mark.usefixtures("as_users_call")
def test_targets_of_another_release_are_refused(release):
    """Another release of the same labels by the same mechanism, or one row of it in a batch, is noticed."""
    other = Curator(["a"] * 120, SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    wrong = targets(other)
    if wrong.shape[1] == targets(release).shape[1]:
        mixed = torch.cat([targets(release)[:-1], wrong[-1:]])
        refused(release, torch.zeros(120, K), mixed, "targets of the release that the loss was made from")
    twin = Curator(["a"] * 120, SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    refused(other, torch.zeros(120, K), targets(twin), "found others; make both from one release")
    both = ConcatDataset([TensorDataset(targets(each)) for each in (other, twin)])
    (batch,) = next(iter(DataLoader(both, batch_size=240)))
    refused(other, torch.zeros(240, K), batch, "found others")


@pytest.mark.usefixtures("as_users_call")
def test_weights_are_one_for_each_row(release):
    """A column of weights would make a table of losses, and one weight would weigh all rows."""
    for wrong in (torch.ones(120, 1), torch.ones(1), torch.ones(119)):
        with pytest.raises(InputError, match="expected a weight for each of 120 rows"):
            ChannelLoss(release)(torch.zeros(120, K), targets(release), weights=wrong)


def test_rows_are_not_made_from_targets_of_another_release():
    """Their labels would have the certificate of this one."""
    other = Curator(["a"] * 120, SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    twin = Curator(["a"] * 120, SPACE).randomize(RandomizedResponse(SPACE, 2.0))
    with pytest.raises(InputError, match="targets of this release"):
        other.of_targets(twin.targets())
    some = other.of_targets(other.targets()[:7])
    assert some.certificate.parent == other.hash


def test_public_labels_of_another_space_are_refused():
    """The same labels in another declared order are other targets; of the same space they are the same."""
    one, two = (Release.public(["no", "yes"], Classes(names)) for names in (["no", "yes"], ["yes", "no"]))
    refused(one, torch.zeros(2, 2), targets(two), "found others")
    ChannelLoss(one)(torch.zeros(1, 2), targets(Release.public(["yes"], Classes(["no", "yes"]))))


@pytest.mark.usefixtures("as_users_call")
def test_what_is_no_target_is_refused(release):
    """Class numbers, averages of targets, releases and empty batches are refused, each with what to do."""
    refused(release, torch.zeros(120, K), torch.zeros(120, dtype=torch.int64), r"rows of release.targets\(\) as a")
    refused(release, torch.zeros(120, K), release, "found Release")
    refused(release, torch.zeros(120, K), 0.5 * targets(release), "so mix losses")
    refused(release, torch.zeros(0, K), targets(release)[:0], "at least one row")
    with pytest.raises(NotTrueLabelsError, match="expected a Release"):
        ChannelLoss(np.zeros(3))


def test_an_overflow_of_half_precision_is_named(release):
    """Outputs beyond what half precision holds are refused before they are a loss."""
    outputs = torch.full((120, K), 1e5).to(torch.float16)
    refused(release, outputs, targets(release), "overflow of half precision")
    assert ChannelLoss(release)(outputs.to(torch.bfloat16).nan_to_num(), targets(release)).isfinite()


def test_an_index_in_another_order_is_noticed():
    """Targets that are made beside a frame are compared with its index."""
    labels = pd.Series(["a", "b", "c"], index=["x", "y", "z"])
    release = Curator(labels, SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    frame = pd.DataFrame({"age": [1, 2, 3]}, index=labels.index)
    np.testing.assert_array_equal(release.targets(frame), release.targets())
    with pytest.raises(RowsError, match="the same rows in another order"):
        release.targets(frame[::-1])


def test_an_empty_part_has_no_targets(release):
    """No rows give no targets, and a loss all the same."""
    none = release[:0]
    assert none.targets().shape == (0, release.targets().shape[1])
    assert ChannelLoss(none)(torch.zeros(120, K), targets(release)).isfinite()


@pytest.mark.usefixtures("as_users_call")
def test_arguments_that_do_not_fit_the_labels_are_refused(release):
    """Class weights without a class to weigh, deviations of classes, corrections of numbers, and bins as numbers."""
    costs = Curator([1.0, 2.0], Interval(0, 10, 1)).randomize(epsilon=1.0)
    cases = [
        (release, "likelihood", {"class_weights": [1.0] * K}, "class weights .* method='unbiased' alone"),
        (release, "unbiased", {"class_weights": [1.0, 2.0]}, "weight of at least 0 for each of 4"),
        (release, "likelihood", {"deviation": 1.0}, "deviation with numeric labels"),
        (costs, "unbiased", {"deviation": 1.0}, "deviation with numeric labels and the method 'likelihood'"),
        (costs, "unbiased", {"correction": 0.5}, "no correction with numeric labels"),
        (costs, "likelihood", {"deviation": math.inf}, "finite number above 0"),
        (release, "likelihood", {"reduction": "max"}, "a reduction among mean, sum, none"),
    ]
    for labels, method, arguments, match in cases:
        with pytest.raises(InputError, match=match):
            ChannelLoss(labels, method, **arguments)
    with pytest.raises(InputError, match="likelihood or posterior with a prior"):
        ChannelLoss(release, "plain")(torch.zeros(120, K), targets(release), prior=torch.ones(120, K))


def test_bins_have_no_unbiased_number(make_release):
    """They are learned by likelihood."""
    release = make_release(np.array([0, 2], dtype=np.int16), bins(), Interval(0, 5, 1))
    with pytest.raises(InputError, match="method='likelihood'"):
        ChannelLoss(release, "unbiased")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_leaves_the_loss_in_single_precision(release, dtype):
    """In half precision a network's loss and gradients stay finite, and close to those in single precision."""
    torch.manual_seed(0)
    network, inputs = torch.nn.Linear(3, K), 100 * torch.randn(120, 3)
    loss = ChannelLoss(release)
    expected = loss(network(inputs), targets(release))
    with torch.autocast("cpu", dtype):
        outputs = network(inputs)
        found = loss(outputs, targets(release))
    assert outputs.dtype == dtype
    assert found.dtype == torch.float32
    found.backward()
    assert all(each.grad.isfinite().all() for each in network.parameters())
    assert found.item() == pytest.approx(expected.item(), rel=0.02)
