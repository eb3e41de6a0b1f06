"""A classifier that trains a network on released labels."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.optim import Optimizer

from labeldp import _checks
from labeldp._progress import Progress, silent
from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.features import row_weights
from labeldp.learning.losses import OriginalFeatures, SyntheticRows, require_release
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import ProbabilityClassifier
from labeldp.learning.torch._losses import NETWORK_METHODS, ChannelLoss, NetworkMethod
from labeldp.learning.torch._rows import (
    ReleasedRows,
    as_rows,
    kinds_of,
    outputs,
    predicted_rows,
    shape_of,
    to_device,
    weight_dtype,
)
from labeldp.learning.torch._settings import (
    SCHEDULES,
    Checkpoint,
    Machine,
    Schedule,
    SingleDevice,
    TrainingSettings,
    nesterov,
)
from labeldp.learning.torch._training import (
    HeldOut,
    Run,
    check_guard,
    seeded_random_state,
    split,
    train,
)
from labeldp.privacy import columns_in_order
from labeldp.release import Release, check_same_rows

#: Parameters excluded from the checkpoint fingerprint.
_NOT_FINGERPRINTED = ("module", "checkpoint", "device", "report", "warm_start")

_OPTIMIZERS: MappingProxyType[str, Callable[..., Optimizer]] = MappingProxyType(
    {"sgd": torch.optim.SGD, "nesterov": nesterov, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
)


@dataclass(eq=False, repr=False)
class TorchClassifier(ProbabilityClassifier):
    """A network on released labels, trained by gradient steps on batches.

    Args:
        module: A network whose outputs are logits of the classes in declared order, or a function that makes one,
            called with the number of classes if it has a parameter. A network is copied and never changed.
        method: ``"likelihood"``: maximum likelihood under the channel (forward correction); ``"posterior"``: the cross
            entropy on the posterior of the true class under the network's own prediction, which has the same
            gradient; ``"unbiased"``: an unbiased estimate of the cross entropy on true labels (backward correction);
            ``"plain"``: released labels as if they were true, as a baseline.
        correction: With ``"unbiased"``: share of the correction, from 0 to 1.
        epochs: Number of passes over the rows.
        batch_size: Most rows of a step, over all processes; the batches of an epoch differ by one row at most.
        optimizer: ``"sgd"``, ``"adam"``, ``"adamw"``; ``"nesterov"``, gradient descent with Nesterov momentum, in
            which parameters of one dimension have 64 times the rate (Jordan 2024); or a function of parameters that
            makes an optimizer, which then sets its own rate, momentum and decay.
        learning_rate: Largest learning rate.
        momentum: Momentum of ``"sgd"`` and ``"nesterov"``.
        weight_decay: Coefficient of half the squared weights (``"sgd"``, ``"nesterov"``, ``"adam"``), or of decoupled
            decay (``"adamw"``).
        schedule: ``"linear"``: up from 0 in the first 15 % of the steps, then down to 0; ``"piecewise"``: the same
            warm-up, then divided by ten at 30, 60 and 90 %; ``"cosine"``: the same warm-up, then half a cosine;
            ``"constant"``; or a function from the share of steps done to the share of the rate.
        mixup: Parameter of the beta distribution of the shares in which rows are mixed in pairs; 0 for no mixing.
        augment: A function that changes a batch of images in training, such as ``augmentation()``.
        averaging: Decay of averaged weights, which then replace the last ones, such as 0.999; 0 for no averaging.
        held_out: Share of rows that are not fitted on; the result has the weights of the epoch in which their released
            labels are likeliest. Without such rows nothing keeps a network with more weights than the release has
            effective rows from fitting noise, which is an ``UnguardedFitWarning``; ``CalibratedClassifier`` guards too.
        patience: Number of epochs without improvement after which training stops; None for no early stopping.
        warm_start: Whether ``fit`` continues from the weights of the last fit.
        checkpoint: A folder in which the state is saved after each epoch, and from which an interrupted training is
            resumed, with the same result bit by bit.
        seed: A public number that determines initial weights, order, mixing, augmentation and dropout. Labels do not
            depend on it: they were drawn before. PyTorch's global random state is neither used nor changed.
        device: The device to train on, such as ``"cuda"``; None for the GPU if there is one.
        precision: ``"full"``, or ``"bf16"``: the network computes in half precision in training; weights, losses and
            predictions stay in full precision. Processors without instructions for it take many times as long.
        accelerator: A function that makes an ``accelerate.Accelerator``, for mixed precision and several devices;
            it then sets device and precision.
        channels_last: Whether images have the channels-last memory format, which often speeds up convolutions.
        report: Function called with ``("epoch", done, of)``.

    Attributes:
        classes_: The declared classes.
        outputs_: The class of each output of the network: the declared classes in declared order.
        module_: The trained network, in evaluation mode.
        history_: The mean loss of each epoch, and the gain on held-out released labels.
        n_iter_: Number of epochs made.
        device_: Device of the network.
        kinds_: Kind of each part of the features in ``fit``, the same in predictions: bytes, whole numbers or real
            numbers.

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

    module: nn.Module | Callable[..., nn.Module]
    _: KW_ONLY
    method: NetworkMethod = "likelihood"
    correction: float = 1.0
    epochs: int = 40
    batch_size: int = 256
    optimizer: str | Callable[[Any], Optimizer] = "adamw"
    learning_rate: float = 0.003
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: str | Schedule = "linear"
    mixup: float = 0.0
    augment: Callable[[Tensor], Tensor] | None = None
    averaging: float = 0.0
    held_out: float = 0.0
    patience: int | None = None
    warm_start: bool = False
    checkpoint: str | Path | None = None
    seed: int = 0
    device: str | None = None
    precision: Literal["full", "bf16"] = "full"
    accelerator: Callable[[], Any] | None = None
    channels_last: bool = False
    report: Progress | None = None

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        sample_weight: Any = None,
        prior: Any = None,
        original: OriginalFeatures | None = None,
        synthetic: SyntheticRows | None = None,
        groups: Any = None,
    ) -> Self:
        """Fit on features of n rows and a release of n rows.

        Args:
            X: Rows along the first axis: an array, memory-mapped or not, a tensor, a sparse matrix, or a tuple of
                these, which are passed to the network as several arguments. Bytes are divided by 255.
            y: A release of n rows.
            sample_weight: Weights of rows.
            prior: P(true = j | further knowledge of a row): predictions of another model, such as ``TreeClassifier``,
                as ``ClassProbabilities.of(model, features)``; or an array of shape (n, k), if the classes were
                declared in sorted order. The network is then fitted by cross entropy to the fixed posterior
                ``q_j = prior_j P(released | j) / sum``. The prior must come from releases and public features, as
                everything that is learned. It is ignored for labels that were declared public.
            original: Probabilities that features are original, if some were resampled
                (``labeldp.learning.sklearn``).
            synthetic: With ``"unbiased"``: rows of the generator whose loss is subtracted, in each step as many as
                released rows. Such a loss has no lower bound, so use few epochs and a small learning rate. Then
                ``original`` is used only for held-out rows.
            groups: The privacy unit of each row, shape (n,), which is fitted on or held out as a whole; ``"rows"`` if
                each row is its own.
        """
        release, features = require_release(y), as_rows(X)
        check_same_rows(X, release)
        settings = self._settings()
        machine = self._machine()
        declared = np.array(release.space.points)
        if synthetic is not None:
            if self.mixup:
                raise InputError("expected no mixup with synthetic rows, found some; set mixup to 0")
            synthetic = dataclasses.replace(synthetic.of(release, self.method), features=as_rows(synthetic.features))
        with seeded_random_state(self.seed):
            module = self._start(declared)
            dtype = weight_dtype(module)
            loss = ChannelLoss(release, self.method, correction=self.correction, reduction="none")
            rows = ReleasedRows(
                features,
                release,
                loss,
                sample_weight=sample_weight,
                prior=prior,
                original=None if synthetic is not None else original,
                dtype=dtype,
            )
            fit, held = split(Units.of(groups, release), self.held_out, self.seed)
            weights = row_weights(sample_weight, len(rows))[held]
            if not len(fit) or (len(held) and not weights.any()):
                raise InputError(
                    f"expected rows to fit on and, with held_out above 0, held-out rows with weight, found {len(fit)} "
                    f"and {np.count_nonzero(weights)}; choose another held_out"
                )
            known = None if original is None else original.of(release).take(held)
            judged = HeldOut(features, held, release[held], weights, known) if len(held) else None
            owner = self._owner(module, rows, y, original, synthetic)
            checkpoint = None if self.checkpoint is None else Checkpoint(Path(self.checkpoint), owner)
            run = Run(module, rows, loss, fit, judged, settings, machine, synthetic)
            if len(fit) // run.steps < machine.num_processes:
                raise InputError(
                    f"expected batches with a row for each of {machine.num_processes} processes, found fewer"
                )
            _check_outputs(run, len(declared))
            if judged is None and prior is None:
                check_guard(module, release)
            trained = train(run, checkpoint, self.report or silent)
        self._set_classes(release.space)
        self.outputs_, self.module_, self.history_ = declared, trained, run.history
        self.n_iter_, self.device_, self.kinds_ = len(run.history), machine.device, kinds_of(features)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``."""
        check_is_fitted(self)
        features = as_rows(X)
        if (kinds := kinds_of(features)) != (fitted := getattr(self, "kinds_", kinds)):
            raise InputError(
                f"expected features in {' and '.join(fitted)}, as in fit, found {' and '.join(kinds)}; bytes are "
                "divided by 255 and whole numbers are indices, so pass the same type"
            )
        classes, channels_last = len(self.classes_), self.channels_last
        predicted = predicted_rows(self.module_, features, classes, self.device_, channels_last=channels_last)
        return columns_in_order(predicted, self._outputs(), self.classes_)

    def _outputs(self) -> np.ndarray:
        """The class of each output of the network; in models of earlier versions ``classes_`` has that order too."""
        return np.asarray(getattr(self, "outputs_", self.classes_))

    def _start(self, classes: np.ndarray) -> nn.Module:
        """The network before its first step."""
        if self.warm_start and hasattr(self, "module_"):
            if not np.array_equal(classes, self._outputs()):
                raise InputError(
                    "expected the classes of the last fit in the same order with warm_start, found others; declare the "
                    "same label space, or fit a new learner"
                )
            return copy.deepcopy(self.module_)
        if isinstance(self.module, nn.Module):
            return copy.deepcopy(self.module)
        if not callable(self.module):
            raise InputError(f"expected a network or a function that makes one, found {type(self.module).__name__}")
        network = self.module(len(classes)) if inspect.signature(self.module).parameters else self.module()
        if not isinstance(network, nn.Module):
            raise InputError(f"expected a function that makes a network, found one that makes {type(network).__name__}")
        return network

    def _machine(self) -> Machine:
        _checks.among(self.precision, "precision", ("full", "bf16"))
        if self.accelerator is not None:
            if self.device is not None or self.precision != "full":
                raise InputError(
                    "expected neither device nor precision with an accelerator, found one; set them in the accelerator"
                )
            return self.accelerator()
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError):
            raise InputError(
                f"expected a device that PyTorch finds here, found {device!r}; use device='cpu', or a PyTorch built "
                "for that device"
            ) from None
        return SingleDevice(torch.device(device), half=self.precision == "bf16")

    def _settings(self) -> TrainingSettings:
        """Check the settings."""
        _checks.among(self.method, "method", NETWORK_METHODS)
        for name, low in (("epochs", 1), ("batch_size", 1), ("seed", 0)):
            _checks.whole(getattr(self, name), name, low)
        if self.patience is not None:
            _checks.whole(self.patience, "patience", 1)
            if not self.held_out:
                raise InputError("expected held_out above 0 with patience, found 0; give a share of the rows, like 0.1")
        for name in ("learning_rate", "weight_decay", "mixup"):
            _checks.not_negative(getattr(self, name), name)
        for name in ("momentum", "averaging", "held_out"):
            _checks.share(getattr(self, name), name, "[)")
        schedule = self.schedule
        if not callable(schedule):
            schedule = SCHEDULES[_checks.among(schedule, "schedule", SCHEDULES)]
        given = {each.name: getattr(self, each.name) for each in dataclasses.fields(TrainingSettings)}
        return TrainingSettings(**{**given, "optimizer": self._optimizer(), "schedule": schedule})

    def _optimizer(self) -> Callable[[Any], Optimizer]:
        if callable(self.optimizer):
            return self.optimizer
        make = _OPTIMIZERS[_checks.among(self.optimizer, "optimizer", _OPTIMIZERS)]
        settings = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        if self.optimizer in ("sgd", "nesterov"):
            settings["momentum"] = self.momentum
        return lambda parameters: make(parameters, **settings)

    def _owner(
        self,
        module: nn.Module,
        rows: ReleasedRows,
        release: Release,
        original: OriginalFeatures | None,
        synthetic: SyntheticRows | None,
    ) -> str:
        """Fingerprint of a training: a hash of settings, initial weights, shapes and the release."""
        settings = {
            name: _setting_text(value)
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_FINGERPRINTED
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for name, value in sorted(module.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        digest.update(f"{release.hash} {shape_of(rows.features)} {release.space.points!r}".encode())
        digest.update(rows.labels["weights"].tobytes())
        if "prior" in rows.labels:
            digest.update(b"prior" + rows.labels["prior"].tobytes())
        if original is not None:
            digest.update(b"original" + original.shares.tobytes() + original.prior.tobytes())
        if synthetic is not None:
            text = f"synthetic {shape_of(synthetic.features)} {synthetic.replaced!r}"
            digest.update(text.encode() + synthetic.prior.tobytes())
        return digest.hexdigest()


def _check_outputs(run: Run, classes: int) -> None:
    """Refuse a network with another number of outputs, before training."""
    one, _ = run.rows[run.fit[:1]]
    network = run.machine.unwrap_model(run.model).eval()
    with torch.no_grad():
        logits = outputs(network, to_device(one, run.machine.device, channels_last=run.settings.channels_last))
    if logits.shape[1] != classes:
        raise InputError(
            f"expected a network with an output for each of {classes} declared classes, found {logits.shape[1]}; "
            "give a function that takes the number of classes, or change its last layer"
        )


def _setting_text(value: Any) -> str:
    """A setting as text, without memory addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
