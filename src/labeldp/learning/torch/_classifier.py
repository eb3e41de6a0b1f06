"""A classifier that trains a network on released labels."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.optim import Optimizer

from labeldp.errors import InputError
from labeldp.learning.features import row_count, row_weights
from labeldp.learning.losses import OriginalFeatures, SyntheticRows, require_release
from labeldp.learning.sklearn import ProbabilityClassifier
from labeldp.learning.torch._checkpoint import Checkpoint
from labeldp.learning.torch._device import Alone, Machine
from labeldp.learning.torch._losses import NETWORK_METHODS, NetworkMethod
from labeldp.learning.torch._outputs import moved, outputs, probabilities
from labeldp.learning.torch._rows import ReleasedRows, as_rows, shape_of, taken
from labeldp.learning.torch._settings import SCHEDULES, Course, Schedule
from labeldp.learning.torch._training import HeldOut, Progress, Run, original_probability, split, train
from labeldp.release import Release

#: Rows that are predicted at a time.
_PREDICTED = 1024
#: What decides nothing about what is learned, and may differ where training is taken up again.
_FREE = ("module", "checkpoint", "device", "report", "workers", "warm_start")

_OPTIMIZERS: MappingProxyType[str, Callable[..., Optimizer]] = MappingProxyType(
    {
        "sgd": lambda parameters, rate, momentum, decay: torch.optim.SGD(
            parameters, lr=rate, momentum=momentum, weight_decay=decay
        ),
        "adam": lambda parameters, rate, _momentum, decay: torch.optim.Adam(parameters, lr=rate, weight_decay=decay),
        "adamw": lambda parameters, rate, _momentum, decay: torch.optim.AdamW(parameters, lr=rate, weight_decay=decay),
    }
)


class TorchClassifier(ProbabilityClassifier):
    """A network on released labels, trained by gradient steps on batches.

    Args:
        module: A network whose outputs are logits of the classes, or a function that makes one: it is given the number
            of classes, unless it takes nothing. A network that is given is copied and never changed.
        method: ``"likelihood"``: maximum likelihood under the channel (forward correction); ``"posterior"``: the cross
            entropy on the posterior of the true class under the network's own prediction, which has the same
            gradient; ``"unbiased"``: an unbiased estimate of the cross entropy on true labels (backward correction);
            ``"plain"``: released labels as if they were true, as a baseline.
        correction: With ``"unbiased"``: how much of the correction is made, from 0 to 1.
        epochs: Times that each row is seen.
        batch_size: Most rows of a step, over all processes; the batches of an epoch differ by one row at most.
        optimizer: ``"sgd"``, ``"adam"``, ``"adamw"``, or a function of parameters that makes an optimizer, which then
            has its own rate, momentum and decay.
        learning_rate: The largest rate.
        momentum: With ``"sgd"``.
        weight_decay: Coefficient of the squared weights, halved (``"sgd"``, ``"adam"``), or of decay apart from
            gradients (``"adamw"``).
        schedule: ``"linear"``: from 0 up in the first 15 % of the steps, then down to 0; ``"piecewise"``: up likewise,
            then a tenth at 30, 60 and 90 % each; ``"cosine"``: up likewise, then half a cosine; ``"constant"``; or a
            function from the share of the steps that are done to the share of the rate.
        mixup: Rows are mixed in pairs, in shares of a beta distribution with this parameter; 0 for no mixing.
        augment: A function that changes a batch of images in training, such as ``augmentation()``.
        averaging: The decay of averaged weights, which are then what is used, such as 0.999; 0 for none.
        held_out: The share of rows that are not fitted on: the weights of the epoch that makes their released labels
            the likeliest are kept.
        patience: Training stops after so many epochs without a better one; None for never.
        warm_start: Whether ``fit`` goes on from the weights of the last one.
        checkpoint: A folder in which the state is kept after each epoch, and from which a training that was
            interrupted is taken up again, with the same result bit by bit.
        seed: A public number. First weights, order, mixing, augmentation and dropout follow from it, and no label
            does: those were drawn before. PyTorch's own random state is neither used nor changed.
        device: Where to compute, such as ``"cuda"``; None for the graphics processor if there is one.
        precision: ``"full"``, or ``"bf16"``: the network computes in half precision in training, where weights, losses
            and predictions stay in full.
        accelerator: A function that makes an ``accelerate.Accelerator``, for mixed precision and several devices;
            then ``device`` and ``precision`` are its.
        channels_last: Whether images lie in memory with channels last, which convolutions often prefer.
        workers: Processes that fetch batches, for features that are slow to read.
        report: PriorResult ``("epoch", done, of)``.

    Attributes:
        classes_: The declared classes.
        module_: The trained network, in evaluation mode.
        history_: The mean loss of each epoch, and the gain on held-out released labels.
        n_iter_: Epochs that were made.
        device_: Where it is.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost, over any number
        of epochs; so are stopping early and choosing settings by held-out released labels.

    References:
        Ghazi et al. 2021, Appendix B, for the schedules, the epochs and the weight decay (they train by ``"sgd"``);
        Patrini et al. 2017 (forward), Natarajan et al. 2013 (backward), Malek et al. 2021, section 3.2 (posterior);
        Zhang et al. 2018 (mixup).

    Example:
        >>> import numpy as np
        >>> from torch import nn
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.torch import TorchClassifier
        >>> features = np.repeat([[-1.0], [1.0]], 500, axis=0)
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=2.0))
        >>> learner = TorchClassifier(lambda classes: nn.Linear(1, classes), epochs=5, learning_rate=0.5)
        >>> learner.fit(features, release).predict([[-1.0], [1.0]]).tolist()
        ['no', 'yes']
    """

    def __init__(
        self,
        module: nn.Module | Callable[..., nn.Module],
        *,
        method: NetworkMethod = "likelihood",
        correction: float = 1.0,
        epochs: int = 40,
        batch_size: int = 256,
        optimizer: str | Callable[[Any], Optimizer] = "adamw",
        learning_rate: float = 0.003,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        schedule: str | Schedule = "linear",
        mixup: float = 0.0,
        augment: Callable[[Tensor], Tensor] | None = None,
        averaging: float = 0.0,
        held_out: float = 0.0,
        patience: int | None = None,
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
        seed: int = 0,
        device: str | None = None,
        precision: Literal["full", "bf16"] = "full",
        accelerator: Callable[[], Any] | None = None,
        channels_last: bool = False,
        workers: int = 0,
        report: Progress | None = None,
    ) -> None:
        self.module = module
        self.method = method
        self.correction = correction
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.mixup = mixup
        self.augment = augment
        self.averaging = averaging
        self.held_out = held_out
        self.patience = patience
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.seed = seed
        self.device = device
        self.precision = precision
        self.accelerator = accelerator
        self.channels_last = channels_last
        self.workers = workers
        self.report = report

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        sample_weight: Any = None,
        prior: Any = None,
        original: OriginalFeatures | None = None,
        synthetic: SyntheticRows | None = None,
    ) -> Self:
        """Fit on features of n rows and a release of n rows.

        Args:
            X: Rows along the first axis: an array, memory-mapped or not, a tensor, a sparse matrix, or a tuple of
                these, which the network takes as several arguments. Bytes are divided by 255.
            y: A release of n rows.
            sample_weight: Weights of rows.
            prior: P(true = j | what else is known of a row), shape (n, k): what another model says of it, such as
                ``TreeClassifier``. Then the network learns the posterior ``q_j = prior_j P(released | j) / sum``, which
                stays as it is, by cross entropy. It must come from releases and public features, as all that is
                learned. Labels that were declared public go before it.
            original: What is known of whether features are the row's own, where some were redrawn
                (``labeldp.learning.sklearn``).
            synthetic: With ``"unbiased"``: rows of the generator whose loss is taken off, as many of them in each step
                as released rows; nothing bounds such a loss below, so take few epochs and a small learning rate. Then
                ``original`` serves the rows that are held out alone.
        """
        release, features = require_release(y), as_rows(X)
        course = self._course()
        machine = self._machine()
        classes = np.array(release.space.points)
        if synthetic is not None:
            if self.mixup:
                raise InputError("expected no mixup with synthetic rows, which are taken off as they are, found some")
            synthetic = dataclasses.replace(synthetic.of(release, self.method), features=as_rows(synthetic.features))
        with original_probability(self.seed):
            module = self._start(classes)
            kind = _kind(module)
            rows = ReleasedRows(
                features,
                release,
                self.method,
                correction=self.correction,
                sample_weight=sample_weight,
                prior=prior,
                original=None if synthetic is not None else original,
                dtype=kind,
            )
            fit, held = split(len(rows), self.held_out, self.seed)
            weights = row_weights(sample_weight, len(rows))[held]
            if not len(fit) or (len(held) and not weights.any()):
                raise InputError(
                    f"expected rows to fit on and, with held_out above 0, rows of some weight to judge by, found "
                    f"{len(fit)} and {np.count_nonzero(weights)}; choose another held_out"
                )
            known = None if original is None else original.of(release).take(held)
            judged = HeldOut(features, held, release[held], weights, known) if len(held) else None
            owner = self._owner(module, rows, y, original, synthetic)
            kept = None if self.checkpoint is None else Checkpoint(Path(self.checkpoint), owner)
            run = Run.start(module, rows, fit, judged, course, machine, synthetic)
            if len(fit) // run.steps < machine.num_processes:
                raise InputError(
                    f"expected batches with a row for each of {machine.num_processes} processes, found fewer"
                )
            _check_outputs(run, len(classes))
            trained = train(run, kept, self.report)
        self.classes_, self.module_, self.history_ = classes, trained, run.history
        self.n_iter_, self.device_ = len(run.history), machine.device
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k), batch by batch."""
        check_is_fitted(self)
        features = as_rows(X)
        found = np.empty((row_count(features), len(self.classes_)))
        kind = _kind(self.module_)
        for low in range(0, len(found), _PREDICTED):
            rows = np.arange(low, min(low + _PREDICTED, len(found)))
            given = moved(taken(features, rows, kind), self.device_, channels_last=self.channels_last)
            found[rows] = probabilities(self.module_, given)
        if not np.isfinite(found).all():
            row = int(np.argmin(np.isfinite(found).all(axis=1)))
            raise InputError(f"expected features that are finite, found a row without a prediction: row {row}")
        return found

    def _start(self, classes: np.ndarray) -> nn.Module:
        """The network before its first step."""
        if self.warm_start and hasattr(self, "module_"):
            if not np.array_equal(classes, self.classes_):
                raise InputError(
                    "expected the classes of the last fit in the same order with warm_start, found others; declare the "
                    "same label space, or fit a new learner"
                )
            return copy.deepcopy(self.module_)
        if isinstance(self.module, nn.Module):
            return copy.deepcopy(self.module)
        if not callable(self.module):
            raise InputError(f"expected a network or a function that makes one, found {type(self.module).__name__}")
        made = self.module(len(classes)) if inspect.signature(self.module).parameters else self.module()
        if not isinstance(made, nn.Module):
            raise InputError(f"expected a function that makes a network, found one that makes {type(made).__name__}")
        return made

    def _machine(self) -> Machine:
        _among("precision", self.precision, ("full", "bf16"))
        if self.accelerator is not None:
            if self.device is not None or self.precision != "full":
                raise InputError(
                    "expected neither device nor precision with an accelerator, found one; give them to it"
                )
            return self.accelerator()  # type: ignore[no-any-return]
        wanted = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.empty(0, device=wanted)
        except (RuntimeError, AssertionError):
            raise InputError(
                f"expected a device that PyTorch finds here, found {wanted!r}; take device='cpu', or a PyTorch that "
                "was made for that device"
            ) from None
        return Alone(torch.device(wanted), half=self.precision == "bf16")

    def _course(self) -> Course:
        """The settings, checked."""
        _among("method", self.method, NETWORK_METHODS)
        for name, low in (("epochs", 1), ("batch_size", 1), ("seed", 0), ("workers", 0)):
            _whole(name, getattr(self, name), low)
        if self.patience is not None:
            _whole("patience", self.patience, 1)
            if not self.held_out:
                raise InputError("expected held_out above 0 with patience, found 0; give a share of the rows, like 0.1")
        for name, high in (("learning_rate", np.inf), ("momentum", 1), ("weight_decay", np.inf), ("mixup", np.inf)):
            _number(name, getattr(self, name), high)
        for name in ("averaging", "held_out"):
            _number(name, getattr(self, name), 1)
        return Course(
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=self._optimizer(),
            schedule=_named("schedule", self.schedule, SCHEDULES),
            mixup=self.mixup,
            augment=self.augment,
            averaging=self.averaging,
            patience=self.patience,
            seed=self.seed,
            workers=self.workers,
            channels_last=self.channels_last,
        )

    def _optimizer(self) -> Callable[[Any], Optimizer]:
        if callable(self.optimizer):
            return self.optimizer
        found = _named("optimizer", self.optimizer, _OPTIMIZERS)
        return lambda parameters: found(parameters, self.learning_rate, self.momentum, self.weight_decay)

    def _owner(
        self,
        module: nn.Module,
        rows: ReleasedRows,
        release: Release,
        original: OriginalFeatures | None,
        synthetic: SyntheticRows | None,
    ) -> str:
        """A hash of all that decides what is learned: settings, first weights, shapes, the release."""
        settings = {name: _told(value) for name, value in self.get_params(deep=False).items() if name not in _FREE}
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for name, value in sorted(module.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        digest.update(f"{release.hash} {shape_of(rows.features)} {release.space.points!r}".encode())
        digest.update(rows.loss.weights.tobytes())
        if rows.loss.prior is not None:
            digest.update(b"prior" + rows.loss.prior.tobytes())
        if original is not None:
            digest.update(b"original" + original.shares.tobytes() + original.prior.tobytes())
        if synthetic is not None:
            told = f"synthetic {shape_of(synthetic.features)} {synthetic.replaced!r}"
            digest.update(told.encode() + synthetic.prior.tobytes())
        return digest.hexdigest()


def _kind(module: nn.Module) -> torch.dtype:
    """The type of a network's weights, which real features are given in."""
    found = next((each.dtype for each in module.parameters() if each.is_floating_point()), None)
    if found is None:
        raise InputError(f"expected a network with weights to learn, found {type(module).__name__} without any")
    return found


def _check_outputs(run: Run, classes: int) -> None:
    """Refuse a network of another number of classes before it trains."""
    one, _ = run.rows[run.fit[:1]]
    network = run.machine.unwrap_model(run.model).eval()
    with torch.no_grad():
        logits = outputs(network, moved(one, run.machine.device, channels_last=run.course.channels_last))
    if logits.shape[1] != classes:
        raise InputError(
            f"expected a network with an output for each of {classes} declared classes, found {logits.shape[1]}; "
            "give a function that takes the number of classes, or change its last layer"
        )


def _told(value: Any) -> str:
    """A setting as text that does not depend on where it lies in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _among(name: str, value: Any, known: Any) -> None:
    if value not in known:
        raise InputError(f"expected {name} among {', '.join(known)}, found {value!r}")


def _named(name: str, value: Any, known: Any) -> Any:
    """What a name stands for, or a function as it is."""
    if callable(value):
        return value
    _among(name, value, known)
    return known[value]


def _whole(name: str, value: Any, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InputError(f"expected {name} to be a whole number of at least {low}, found {value!r}")


def _number(name: str, value: Any, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < high:
        raise InputError(f"expected {name} to be a number of at least 0 and below {high:g}, found {value!r}")
