"""The training loop: learning rates, mixup, weight averaging, early stopping on released labels, and checkpoints.

All randomness follows from a public seed and the number of the epoch, so an epoch is the same in a resumed training. No
label is drawn here.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from labeldp._progress import Progress
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.errors import InputError, VerificationError
from labeldp.learning.features import row_count
from labeldp.learning.losses import OriginalFeatures, SyntheticRows, effective_share, gain
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import UnguardedFitWarning as UnguardedFitWarning  # noqa: PLC0414 (an export)
from labeldp.learning.torch._losses import ChannelLoss, rows_of
from labeldp.learning.torch._rows import PREDICTED, ReleasedRows, outputs, probabilities, tensor_rows, to_device
from labeldp.learning.torch._settings import Checkpoint, Machine, TrainingSettings
from labeldp.release import Release

#: Steps between checks of the losses, each of which waits for the device.
_CHECKED_EVERY = 50


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out rows with their released labels."""

    features: Any
    rows: Int[np.ndarray, "h"]
    release: Release
    weights: Float[np.ndarray, "h"]
    original: OriginalFeatures | None = None


@dataclass(eq=False)
class Run:
    """A network in training.

    Attributes:
        model: The prepared network.
        optimizer: The prepared optimizer.
        rows: All rows.
        loss: The loss of each row.
        fit: Numbers of the rows that are fitted on.
        held: Held-out rows, or None.
        settings: Training settings.
        machine: Training device.
        averaged: Averaged weights, or None.
        best: Best weights so far by held-out released labels.
        best_gain: Gain of the best weights.
        best_epoch: Number of epochs until the best weights.
        history: Mean loss of each epoch and, if rows are held out, the gain.
        synthetic: Rows of a generator, whose loss is subtracted, or None.
    """

    module: InitVar[nn.Module]
    rows: ReleasedRows
    loss: ChannelLoss
    fit: Int[np.ndarray, "m"]
    held: HeldOut | None
    settings: TrainingSettings
    machine: Machine
    synthetic: SyntheticRows | None = None
    best: dict[str, Any] | None = field(default=None, init=False)
    best_gain: float = field(default=-math.inf, init=False)
    best_epoch: int = field(default=0, init=False)
    history: list[dict[str, float]] = field(default_factory=list, init=False)

    def __post_init__(self, module: nn.Module) -> None:
        module = module.to(self.machine.device)
        if self.settings.channels_last:
            module = module.to(memory_format=torch.channels_last)
        self.averaged = averaging(module, self.settings.averaging) if self.settings.averaging else None
        self.model, self.optimizer = self.machine.prepare(module, self.settings.optimizer(module.parameters()))
        self.rates: list[float] = [group["lr"] for group in self.optimizer.param_groups]

    @property
    def network(self) -> nn.Module:
        """The current network: the averaged one if weights are averaged."""
        return self.machine.unwrap_model(self.model) if self.averaged is None else self.averaged.module

    @property
    def steps(self) -> int:
        """Number of steps of an epoch."""
        return -(-len(self.fit) // self.settings.batch_size)

    @property
    def finished(self) -> bool:
        """True after the last epoch, or after ``patience`` epochs without a better gain on held-out released labels."""
        done, patience = len(self.history), self.settings.patience
        return done >= self.settings.epochs or (patience is not None and done - self.best_epoch >= patience)

    def epoch(self) -> None:
        """Make one pass over the rows, then compute the gain on held-out rows."""
        number, machine = len(self.history), self.machine
        torch.manual_seed(seed_of(self.settings.seed, number, machine.process_index))
        rng = np.random.default_rng([self.settings.seed, number])
        batches = np.array_split(self.fit[rng.permutation(len(self.fit))], self.steps)  # of nearly equal size
        parts = [batch[machine.process_index :: machine.num_processes] for batch in batches]
        shares = [len(part) * machine.num_processes / len(batch) for part, batch in zip(parts, batches, strict=True)]
        losses: list[Tensor] = []
        checked = 0
        self.model.train()
        for i, (features, labels) in enumerate(map(self.rows.__getitem__, parts)):
            self._rate(number * self.steps + i)
            losses.append(self._step(features, labels, shares[i], rng))
            if len(losses) % _CHECKED_EVERY == 0 or len(losses) == self.steps:
                self._check_losses(losses, checked)
                checked = len(losses)
        record = {"loss": float(machine.gather(torch.stack(losses).mean()[None]).mean())}
        self.history.append(record)
        self._synchronise_buffers()
        if self.held is not None:
            record["gain"] = self._held_out_gain(self.held)

    def _synchronise_buffers(self) -> None:
        """Copy batch statistics from the first process, as each process saw only its part of every batch."""
        modules = (self.machine.unwrap_model(self.model), self.network)
        for buffer in (each for module in modules for each in module.buffers()):
            buffer.copy_(self.machine.gather(buffer[None])[0])

    def _rate(self, step: int) -> None:
        share = self.settings.schedule((step + 0.5) / (self.steps * self.settings.epochs))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * share

    def _step(self, features: Any, labels: dict[str, Tensor], share: float, rng: np.random.Generator) -> Tensor:
        """One step; ``share`` is this process's part of the batch times the number of processes."""
        inputs, count = self._on_device(features), len(labels["targets"])
        labels = {name: each.to(self.machine.device) for name, each in labels.items()}
        if self.settings.augment is not None:
            inputs = self.settings.augment(inputs)
        if self.settings.mixup:
            mixed = rng.beta(self.settings.mixup, self.settings.mixup)
            order = torch.from_numpy(rng.permutation(count)).to(self.machine.device)
            inputs = mixture(inputs, order, mixed)
        with self.machine.autocast():
            logits = outputs(self.model, inputs)
        loss = self.loss(logits, **labels)
        if self.settings.mixup:
            other = {name: each[order] for name, each in labels.items()}
            loss = mixed * loss + (1.0 - mixed) * self.loss(logits, **other)
        mean = loss.mean()
        if self.synthetic is not None:
            mean = (mean - self.synthetic.replaced * self._synthetic_loss(self.synthetic, count, rng)) / (
                1.0 - self.synthetic.replaced
            )
        self.optimizer.zero_grad()
        self.machine.backward(mean * share)
        self.optimizer.step()
        if self.averaged is not None:
            self.averaged.update_parameters(self.machine.unwrap_model(self.model))
        return mean.detach()

    def _synthetic_loss(self, synthetic: SyntheticRows, count: int, rng: np.random.Generator) -> Tensor:
        """The mean loss of ``count`` synthetic rows per process, with class weights from the prior."""
        machine = self.machine
        drawn = rng.integers(0, row_count(synthetic.features), count * machine.num_processes)
        rows = drawn[machine.process_index :: machine.num_processes]
        inputs = self._on_device(tensor_rows(synthetic.features, rows, self.rows.dtype))
        if self.settings.augment is not None:
            inputs = self.settings.augment(inputs)
        with self.machine.autocast():
            logits = outputs(self.model, inputs)
        log_probs = torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=1)
        return -(log_probs @ torch.tensor(synthetic.prior).to(log_probs)).mean()

    def _on_device(self, features: Any) -> Any:
        return to_device(features, self.machine.device, channels_last=self.settings.channels_last)

    def _check_losses(self, losses: Sequence[Tensor], checked: int) -> None:
        """Raise an error at a loss that is not finite, among those not checked before."""
        wrong = torch.nonzero(~torch.isfinite(torch.stack(list(losses[checked:]))))
        if len(wrong):
            step = len(self.history) * self.steps + checked + int(wrong[0]) + 1
            raise InputError(
                f"expected finite losses, found NaN or infinity at step {step} of {self.steps * self.settings.epochs} "
                f"(epoch {len(self.history) + 1}, learning rate {max(self.rates):g}); look for features that are not "
                "finite, lower learning_rate, or use the method 'likelihood', which is bounded below"
            )

    def _held_out_gain(self, held: HeldOut) -> float:
        """The mean gain on held-out released labels; stores the weights if it is the best so far."""
        gains = np.empty(len(held.rows))
        for part in blocks(len(gains), entries=PREDICTED):
            predicted = self.probabilities(tensor_rows(held.features, held.rows[part], self.rows.dtype))
            gains[part] = gain(
                rows_of(held.release, part), predicted, None if held.original is None else held.original.take(part)
            )
        mean = torch.tensor([np.average(gains, weights=held.weights)], device=self.machine.device)
        first = float(self.machine.gather(mean)[0])  # all processes use that of the first
        if first > self.best_gain:
            self.best_gain, self.best_epoch = first, len(self.history)
            self.best = {name: value.clone() for name, value in self.network.state_dict().items()}
        return first

    def probabilities(self, features: Any) -> Float[np.ndarray, "m k"]:
        """Probabilities of the classes by the current network."""
        return probabilities(self.network, self._on_device(features))

    def state(self) -> dict[str, Any]:
        """The state that the next epoch depends on."""
        scaler = self.machine.scaler
        return {
            "model": self.machine.unwrap_model(self.model).state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "averaged": None if self.averaged is None else self.averaged.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
            "best": self.best,
            "best_gain": self.best_gain,
            "best_epoch": self.best_epoch,
            "history": self.history,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a state."""
        self.machine.unwrap_model(self.model).load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.averaged is not None:
            self.averaged.load_state_dict(state["averaged"])
        if self.machine.scaler is not None:
            self.machine.scaler.load_state_dict(state["scaler"])
        best, self.best_gain, self.best_epoch = state["best"], float(state["best_gain"]), int(state["best_epoch"])
        self.history = [{str(name): float(value) for name, value in record.items()} for record in state["history"]]
        if best is not None:
            weights = self.network.state_dict()
            if best.keys() != weights.keys() or any(best[name].shape != weights[name].shape for name in weights):
                raise ValueError("expected the best weights of this network, found others")
        self.best = best

    def result(self) -> nn.Module:
        """The network with the best weights, or the last ones if no rows were held out."""
        network = self.network
        if self.best is not None:
            network.load_state_dict(self.best)
        return self.machine.unwrap_model(network, keep_fp32_wrapper=False).eval()


def train(run: Run, checkpoint: Checkpoint | None, report: Progress) -> nn.Module:
    """Run all epochs, resuming from a checkpoint."""
    epochs, machine = run.settings.epochs, run.machine
    if checkpoint is not None and (state := checkpoint.load(machine.device)) is not None:
        try:
            run.restore(state)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as problem:
            raise VerificationError(
                f"expected the state of this training in {checkpoint.path}, found a damaged one "
                f"({type(problem).__name__}); remove it, or give another folder"
            ) from None
    while not run.finished:
        report("epoch", len(run.history), epochs)
        run.epoch()
        if checkpoint is not None and machine.is_main_process:
            checkpoint.save(run.state())
        machine.wait_for_everyone()
    report("epoch", epochs, epochs)
    return run.result()


def check_guard(module: nn.Module, release: Release) -> None:
    """Warn if labels are so few and noisy that a network without held-out rows can fit their noise.

    The rule of thumb: fewer effective rows than trained weights. It reads the channel and the number of rows alone.
    """
    if release.is_public:
        return
    rows = len(release) * effective_share(release)
    weights = sum(each.numel() for each in module.parameters() if each.requires_grad)
    if rows < weights:
        warnings.warn(
            f"expected as many effective rows as weights, or held-out rows, found {rows:,.0f} effective rows for "
            f"{weights:,} weights and none held out: nothing keeps the network from fitting the noise of labels, by "
            "which it may predict worse than class shares; set held_out=0.1, or use CalibratedClassifier",
            UnguardedFitWarning,
            stacklevel=3,
        )


def seed_of(*numbers: int) -> int:
    """A seed for PyTorch derived from numbers."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextlib.contextmanager
def seeded_random_state(seed: int) -> Iterator[None]:
    """Seed PyTorch's random state, and restore it afterwards."""
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        torch.manual_seed(seed_of(seed))
        yield


def averaging(module: nn.Module, decay: float) -> AveragedModel:
    """Exponential averages of weights and batch statistics, in which the first steps count less."""

    def average(old: Tensor, new: Tensor, steps: Tensor | int) -> Tensor:
        count = int(steps)
        return old + (1.0 - min(decay, (1.0 + count) / (10.0 + count))) * (new - old)

    return AveragedModel(module, avg_fn=average, use_buffers=True)


def mixture(features: Any, order: Tensor, share: float) -> Any:
    """Mix each row with another one, in the given shares."""
    if isinstance(features, tuple):
        return tuple(mixture(part, order, share) for part in features)
    if not features.is_floating_point():
        raise InputError("expected real-valued features with mixup, found whole numbers; set mixup to 0")
    return share * features + (1.0 - share) * features[order]


def split(units: Units, share: float, seed: int) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Split units at random, independently of labels; the rows of those to fit on, and of those to hold out."""
    if not share:
        return np.arange(units.rows), np.arange(0)
    order = np.random.default_rng([seed, 1 << 32]).permutation(units.count)
    numbers = np.arange(units.rows) if units.numbers is None else units.numbers
    held = np.isin(numbers, order[: max(1, round(share * units.count))])
    return np.flatnonzero(~held), np.flatnonzero(held)
