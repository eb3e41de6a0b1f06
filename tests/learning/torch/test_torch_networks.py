"""Networks: what they are made of, what they take and give."""

import inspect
import itertools

import pytest

torch = pytest.importorskip("torch")

from labeldp.errors import InputError  # noqa: E402 (torch is an extra)
from labeldp.learning.torch import (  # noqa: E402
    convolutional,
    inception,
    mlp,
    ratings,
    residual,
    resnet18,
    whitened,
)
from labeldp.learning.torch._networks import NETWORKS  # noqa: E402
from labeldp.learning.torch._settings import nesterov  # noqa: E402

torch.set_num_threads(1)


def numbers(*most):
    """A function of rows that gives whole numbers below each of ``most``."""
    return lambda rows: torch.stack([torch.randint(0, top, (rows,)) for top in most], dim=1)


#: A small network of each kind, its number of classes, and what makes input of so many rows.
KINDS = {
    "residual": (lambda: residual(4, width=3), 4, lambda rows: torch.randn(rows, 1, 12, 12)),
    "convolutional": (lambda: convolutional(4), 4, lambda rows: torch.randn(rows, 1, 12, 12)),
    "convolutional, colour": (lambda: convolutional(3, channels=3), 3, lambda rows: torch.randn(rows, 3, 9, 11)),
    "inception": (lambda: inception(5), 5, lambda rows: torch.randn(rows, 1, 6, 6)),
    "resnet18": (lambda: resnet18(7), 7, lambda rows: torch.randn(rows, 3, 8, 8)),
    "whitened": (lambda: whitened(4, width=8), 4, lambda rows: torch.randn(rows, 3, 9, 11)),
    "whitened, grey": (lambda: whitened(3, channels=1, width=8), 3, lambda rows: torch.randn(rows, 1, 12, 12)),
    "ratings": (lambda: ratings(6, 4, 5, factors=3), 5, numbers(6, 4)),
    "mlp": (lambda: mlp(6, 3, width=8), 3, lambda rows: torch.randn(rows, 6)),
}


@pytest.fixture(params=KINDS)
def network(request):
    """A network of each kind with fixed weights, its number of classes, and what makes its input."""
    torch.manual_seed(0)
    make, classes, rows = KINDS[request.param]
    return make(), classes, rows


def test_every_network_has_a_name_and_is_tried_here():
    """The names that files may hold are those of the functions, and each is among the kinds of this file."""
    assert {name: function.__name__ for name, function in NETWORKS.items()} == {name: name for name in NETWORKS}
    assert {name.partition(",")[0] for name in KINDS} == set(NETWORKS)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_batch_of_any_size_gives_a_number_for_each_class(network, rows):
    """In evaluation, from one row on."""
    module, classes, made = network
    with torch.no_grad():
        assert module.eval()(made(rows)).shape == (rows, classes)


def test_in_evaluation_a_row_depends_on_itself_alone(network):
    """The same row alone and among others gives the same numbers, and in training it need not."""
    module, _, made = network
    rows = made(6)
    with torch.no_grad():
        for _ in range(3):
            module.train()(rows)  # so that averages of batches are not what they begin with
        together = module.eval()(rows)
        alone = torch.cat([module(rows[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert together.std(dim=0).min() > 0


def test_the_gradient_reaches_every_parameter(network):
    """No trained parameter is left out: over a few batches each has a gradient that is not 0."""
    module, classes, made = network
    rows = made(32)
    targets = torch.arange(32) % classes
    torch.nn.functional.cross_entropy(module(rows), targets).backward()
    found = {name: each.grad for name, each in module.named_parameters() if each.requires_grad}
    assert [name for name, grad in found.items() if grad is None or not grad.abs().sum() > 0] == []


def convolution(narrow, wide, size):
    """The numbers of a convolution without a constant term, and of the normalization after it."""
    return narrow * wide * size * size + 2 * wide


def branches(narrow, points, squares):
    """Those of a 1 x 1 and a 3 x 3 convolution side by side."""
    return convolution(narrow, points, 1) + convolution(narrow, squares, 3)


def test_the_inception_is_the_one_that_is_printed():
    """Its parameters are as many as those of the layers in the appendix of Ghazi et al., counted one by one."""
    first = branches(96, 32, 32) + branches(64, 32, 48) + convolution(80, 160, 3)
    second = branches(160, 112, 48) + branches(160, 96, 64) + branches(160, 80, 80) + branches(160, 48, 96)
    third = branches(240, 176, 160) + branches(336, 176, 160)
    whole = convolution(1, 96, 3) + first + second + convolution(144, 240, 3) + third + 336 * 10 + 10
    assert sum(parameter.numel() for parameter in inception(10).parameters()) == whole


def test_the_inception_halves_an_image_twice():
    """28 x 28 points are 14 x 14 and then 7 x 7 before the largest of each channel is taken."""
    module, sizes = inception(10).eval(), []
    pooling = next(each for each in module if isinstance(each, torch.nn.AdaptiveMaxPool2d))
    pooling.register_forward_pre_hook(lambda _, given: sizes.append(tuple(given[0].shape)))
    with torch.no_grad():
        module(torch.zeros(1, 1, 28, 28))
    assert sizes == [(1, 336, 7, 7)]


def test_the_resnet_has_eighteen_layers():
    """Seventeen 3 x 3 convolutions and a linear layer, projections where the width doubles, and so many parameters."""
    module = resnet18(10)
    found = [each for each in module.modules() if isinstance(each, torch.nn.Conv2d)]
    assert [each.kernel_size for each in found].count((3, 3)) == 17
    assert [each.kernel_size for each in found].count((1, 1)) == 3
    widths = (64, 128, 256, 512)
    stem, head = 3 * 64 * 9, 2 * 512 + 512 * 10 + 10
    first = 4 * (64 * 64 * 9 + 2 * 64)
    others = 0
    for narrow, wide in itertools.pairwise(widths):
        others += narrow * wide * 9 + 3 * wide * wide * 9 + narrow * wide  # convolutions and the projection
        others += 2 * narrow + 3 * 2 * wide  # normalizations, each of what comes in
    assert sum(parameter.numel() for parameter in module.parameters()) == stem + first + others + head


def test_the_resnet_normalizes_before_it_projects():
    """As the second version does: where the shape changes, the projection sees no negative number."""
    module, seen = resnet18(2).eval(), []
    for block in module:
        if getattr(block, "projection", None) is not None:
            block.projection.register_forward_pre_hook(lambda _, given: seen.append(float(given[0].min())))
    with torch.no_grad():
        module(torch.randn(2, 3, 16, 16))
    assert len(seen) == 3
    assert min(seen) >= 0


def test_the_whitened_network_sees_uncorrelated_cosines():
    """Of smooth noise in alike channels, they have unit variance and hardly any covariance."""
    module = whitened(2).train()[0]
    smooth = torch.nn.functional.avg_pool2d(torch.randn(50, 1, 24, 24), 3, stride=1)
    pixels = smooth + 0.3 * torch.randn(50, 3, 22, 22)
    with torch.no_grad():
        raw = torch.nn.functional.unfold(pixels, 2).transpose(0, 1).flatten(1)
        made = module.normalization(torch.nn.functional.conv2d(pixels, module.filters)).transpose(0, 1).flatten(1)
        signs = module(pixels)
    off = ~torch.eye(12, dtype=torch.bool)
    assert torch.corrcoef(raw)[off].abs().max() > 0.5
    assert torch.corrcoef(made)[off].abs().max() < 0.05
    assert made.var(dim=1) == pytest.approx(torch.ones(12), abs=0.01)
    assert signs.shape == (50, 24, 21, 21)


def test_the_whitened_network_begins_as_the_identity_and_steps_shifts_further():
    """Its convolutions pass channels on, its scales are fixed, and shifts have 64 times the rate at the same decay."""
    module = whitened(5, width=32)
    first = next(each for each in module if isinstance(each, torch.nn.Conv2d))
    rows = torch.randn(2, 24, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(first(rows)[:, :24], rows)
    weights, shifts = nesterov(module.parameters(), 1.5, 1e-5, 0.85).param_groups
    assert {each.ndim for each in shifts["params"]} == {1}
    assert len(shifts["params"]) == 6
    assert len(weights["params"]) == 7
    assert shifts["lr"] == 64 * weights["lr"]
    assert shifts["lr"] * shifts["weight_decay"] == pytest.approx(weights["lr"] * weights["weight_decay"])


def test_the_whitened_network_refuses_tiny_images():
    """Pooling three times leaves nothing of them."""
    with pytest.raises(InputError, match=r"at least 9 x 9 pixels for this network, found 8 x 12"):
        whitened(2, channels=1)(torch.zeros(1, 1, 8, 12))


def test_the_others_have_the_parameters_of_their_layers():
    """ClassIndicators by hand: a small convolutional network, two branches for ratings, a perceptron."""
    counts = [sum(each.numel() for each in make().parameters()) for make in (
        lambda: convolutional(10), lambda: ratings(7, 5, 3, factors=4), lambda: mlp(6, 3, width=8)
    )]  # fmt: skip
    small = convolution(1, 32, 6) + convolution(32, 64, 3) + convolution(64, 128, 3) + 128 * 10 + 10
    pairs = (7 + 5) * (4 + 4) + (8 * 8 + 8) + (8 * 4 + 4) + (8 * 3 + 3)
    layers = (6 * 8 + 8) + (8 * 4 + 4) + (4 * 3 + 3)
    assert counts == [small, pairs, layers]


def test_ratings_take_a_tensor_or_both_columns():
    """A tensor of pairs, the same as fractional numbers, and a tuple of columns give the same."""
    module, pairs = ratings(6, 4, 3).eval(), numbers(6, 4)(9)
    with torch.no_grad():
        found = [module(pairs), module(pairs.float()), module((pairs[:, 0], pairs[:, 1]))]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def test_both_branches_of_ratings_tell_users_and_items_apart():
    """Without either branch's factors the output still depends on the pair through the other."""
    for silent in ("product", "layers"):
        module = ratings(3, 3, 2).eval()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if name.startswith(("user_", "item_")):
                    parameter.fill_(0.0) if silent in name else parameter.normal_()
            found = module(torch.tensor([[0, 0], [1, 0], [0, 1]]))
        assert len({tuple(row) for row in found.tolist()}) == 3, silent


def test_networks_are_made_of_whole_numbers_alone():
    """Every argument of every network is annotated as a whole number, so that a file can hold it."""
    for function in NETWORKS.values():
        assert {each.annotation for each in inspect.signature(function).parameters.values()} == {"int"}
