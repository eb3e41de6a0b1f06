"""The training loop: rates, mixup, averaging, stopping on released labels, and checkpoints that resume.

All chance in it follows from a public seed and the number of the epoch, so an epoch is the same whether training went
on or was taken up again. No label is drawn here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from labeldp.errors import InputError
from labeldp.learning.features import row_count
from labeldp.learning.losses import OriginalFeatures, SyntheticRows, gain
from labeldp.learning.torch._checkpoint import Checkpoint
from labeldp.learning.torch._device import Machine
from labeldp.learning.torch._losses import BatchLoss, rows_of
from labeldp.learning.torch._outputs import moved, outputs, probabilities
from labeldp.learning.torch._rows import ReleasedRows, taken
from labeldp.learning.torch._settings import Course
from labeldp.release import Release

Progress = Callable[[str, int, int], None]

#: After how many steps losses are looked at: each look waits for the device.
_LOOK = 50
#: Rows that are predicted at a time.
_PREDICTED = 1024


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that are judged by, with their released labels."""

    features: Any
    rows: Int[np.ndarray, "h"]
    release: Release
    weights: Float[np.ndarray, "h"]
    original: OriginalFeatures | None = None


@dataclass(eq=False)
class Run:
    """A network in training.

    Attributes:
        model: The network, as prepared.
        optimizer: Its optimizer, as prepared.
        rows: All rows.
        fit: The rows that are fitted on.
        held: Those that are judged by, or None.
        course: How it is trained.
        machine: What computes.
        averaged: The averaged weights, or None.
        best: The best weights so far by held-out released labels.
        best_gain: Their gain.
        best_epoch: After how many epochs they were found.
        history: The mean loss and, where rows are held out, the gain of each epoch.
        synthetic: Rows of a generator, whose loss is taken off, or None.
    """

    model: nn.Module
    optimizer: Any
    rows: ReleasedRows
    fit: Int[np.ndarray, "m"]
    held: HeldOut | None
    course: Course
    machine: Machine
    averaged: AveragedModel | None
    rates: list[float]
    best: dict[str, Any] | None = None
    best_gain: float = -math.inf
    best_epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    synthetic: SyntheticRows | None = None

    @classmethod
    def start(
        cls,
        module: nn.Module,
        rows: ReleasedRows,
        fit: Int[np.ndarray, "m"],
        held: HeldOut | None,
        course: Course,
        machine: Machine,
        synthetic: SyntheticRows | None = None,
    ) -> Run:
        """A network before its first step."""
        module = module.to(machine.device)
        if course.channels_last:
            module = module.to(memory_format=torch.channels_last)
        averaged = averaging(module, course.averaging) if course.averaging else None
        model, optimizer = machine.prepare(module, course.optimizer(module.parameters()))
        rates = [group["lr"] for group in optimizer.param_groups]
        return cls(model, optimizer, rows, fit, held, course, machine, averaged, rates, synthetic=synthetic)

    @property
    def network(self) -> nn.Module:
        """The network that would be used now: the averaged one, where weights are averaged."""
        return self.machine.unwrap_model(self.model) if self.averaged is None else self.averaged.module

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return -(-len(self.fit) // self.course.batch_size)

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or held-out released labels say that it gets no better."""
        done, patience = len(self.history), self.course.patience
        return done >= self.course.epochs or (patience is not None and done - self.best_epoch >= patience)

    def epoch(self) -> None:
        """See each row once, then judge."""
        number, machine = len(self.history), self.machine
        torch.manual_seed(seed_of(self.course.seed, number, machine.process_index))
        chance = np.random.default_rng([self.course.seed, number])
        batches = np.array_split(self.fit[chance.permutation(len(self.fit))], self.steps)  # none is nearly empty
        parts = [batch[machine.process_index :: machine.num_processes] for batch in batches]
        shares = [len(part) * machine.num_processes / len(batch) for part, batch in zip(parts, batches, strict=True)]
        losses: list[Tensor] = []
        looked = 0
        self.model.train()
        for i, (features, asked) in enumerate(fetched(self.rows, parts, self.course.workers)):
            self._rate(number * self.steps + i)
            losses.append(self._step(features, asked.to(machine.device), shares[i], chance))
            if len(losses) % _LOOK == 0 or len(losses) == self.steps:
                self._look(losses, looked)
                looked = len(losses)
        found = {"loss": float(machine.gather(torch.stack(losses).mean()[None]).mean())}
        self.history.append(found)
        self._agree()
        if self.held is not None:
            found["gain"] = self._judge(self.held)

    def _agree(self) -> None:
        """Statistics of batches as the first process has them: each process saw its own part of every batch."""
        modules = (self.machine.unwrap_model(self.model), self.network)
        for buffer in (each for module in modules for each in module.buffers()):
            buffer.copy_(self.machine.gather(buffer[None])[0])

    def _rate(self, step: int) -> None:
        share = self.course.schedule((step + 0.5) / (self.steps * self.course.epochs))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * share

    def _step(self, features: Any, asked: BatchLoss, share: float, chance: np.random.Generator) -> Tensor:
        """One step; ``share`` is this process's part of the batch times the number of processes."""
        given = self._given(features)
        if self.course.augment is not None:
            given = self.course.augment(given)
        if self.course.mixup:
            mixed = chance.beta(self.course.mixup, self.course.mixup)
            order = torch.from_numpy(chance.permutation(len(asked))).to(self.machine.device)
            given = mixture(given, order, mixed)
        with self.machine.autocast():
            logits = outputs(self.model, given)
        loss = asked(logits)
        if self.course.mixup:
            loss = mixed * loss + (1.0 - mixed) * asked.take(order)(logits)
        mean = loss.mean()
        if self.synthetic is not None:
            mean = (mean - self.synthetic.replaced * self._of_synthetic(self.synthetic, len(asked), chance)) / (
                1.0 - self.synthetic.replaced
            )
        self.optimizer.zero_grad()
        self.machine.backward(mean * share)
        self.optimizer.step()
        if self.averaged is not None:
            self.averaged.update_parameters(self.machine.unwrap_model(self.model))
        return mean.detach()

    def _of_synthetic(self, synthetic: SyntheticRows, count: int, chance: np.random.Generator) -> Tensor:
        """The mean loss of so many synthetic rows, whose classes have the shares of the prior."""
        machine = self.machine
        drawn = chance.integers(0, row_count(synthetic.features), count * machine.num_processes)
        rows = drawn[machine.process_index :: machine.num_processes]
        given = self._given(taken(synthetic.features, rows, self.rows.dtype))
        if self.course.augment is not None:
            given = self.course.augment(given)
        with self.machine.autocast():
            logits = outputs(self.model, given)
        chances = torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=1)
        return -(chances @ torch.tensor(synthetic.prior).to(chances)).mean()

    def _given(self, features: Any) -> Any:
        return moved(features, self.machine.device, channels_last=self.course.channels_last)

    def _look(self, losses: Sequence[Tensor], looked: int) -> None:
        """Stop at a loss that is no number, among those that were not looked at."""
        wrong = torch.nonzero(~torch.isfinite(torch.stack(list(losses[looked:]))))
        if len(wrong):
            step = len(self.history) * self.steps + looked + int(wrong[0]) + 1
            raise InputError(
                f"expected finite losses, found another at step {step} of {self.steps * self.course.epochs} (epoch "
                f"{len(self.history) + 1}, learning rate {max(self.rates):g}); look for features that are not finite, "
                "lower learning_rate, or take the method 'likelihood', which is bounded below"
            )

    def _judge(self, held: HeldOut) -> float:
        """The mean gain on held-out released labels; the weights are kept where it is the best so far."""
        found = np.empty(len(held.rows))
        for low in range(0, len(found), _PREDICTED):
            part = slice(low, low + _PREDICTED)
            chances = self.probabilities(taken(held.features, held.rows[part], self.rows.dtype))
            found[part] = gain(
                rows_of(held.release, part), chances, None if held.original is None else held.original.take(part)
            )
        mean = torch.tensor([np.average(found, weights=held.weights)], device=self.machine.device)
        first = float(self.machine.gather(mean)[0])  # all processes go by the first
        if first > self.best_gain:
            self.best_gain, self.best_epoch = first, len(self.history)
            self.best = {name: value.clone() for name, value in self.network.state_dict().items()}
        return first

    def probabilities(self, features: Any) -> Float[np.ndarray, "m k"]:
        """Probabilities of the classes, by the network that would be used now."""
        return probabilities(self.network, self._given(features))

    def state(self) -> dict[str, Any]:
        """All that the next epoch depends on."""
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
        """Go on from a state."""
        self.machine.unwrap_model(self.model).load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.averaged is not None:
            self.averaged.load_state_dict(state["averaged"])
        if self.machine.scaler is not None:
            self.machine.scaler.load_state_dict(state["scaler"])
        self.best, self.best_gain, self.best_epoch = state["best"], state["best_gain"], state["best_epoch"]
        self.history = list(state["history"])

    def result(self) -> nn.Module:
        """The network with the best weights, or the last where no rows were held out."""
        network = self.network
        if self.best is not None:
            network.load_state_dict(self.best)
        return self.machine.unwrap_model(network, keep_fp32_wrapper=False).eval()


def train(run: Run, checkpoint: Checkpoint | None, report: Progress | None) -> nn.Module:
    """All epochs, from where a checkpoint left off."""
    epochs, machine = run.course.epochs, run.machine
    if checkpoint is not None and (state := checkpoint.load(machine.device)) is not None:
        run.restore(state)
    while not run.finished:
        if report is not None:
            report("epoch", len(run.history), epochs)
        run.epoch()
        if checkpoint is not None and machine.is_main_process:
            checkpoint.save(run.state())
        machine.wait_for_everyone()
    if report is not None:
        report("epoch", epochs, epochs)
    return run.result()


def seed_of(*numbers: int) -> int:
    """A seed for PyTorch that follows from numbers."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextlib.contextmanager
def original_probability(seed: int) -> Iterator[None]:
    """PyTorch's random numbers by a seed, and afterwards as they were."""
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        torch.manual_seed(seed_of(seed))
        yield


def fetched(rows: ReleasedRows, batches: list[np.ndarray], workers: int) -> Iterator[tuple[Any, BatchLoss]]:
    """Batches in their order, by this process or by others that read ahead."""
    if workers == 0:
        return (rows[batch] for batch in batches)
    original = torch.Generator()  # or it would take from the numbers that dropout takes from
    return iter(DataLoader(rows, sampler=batches, batch_size=None, num_workers=workers, generator=original))


def averaging(module: nn.Module, decay: float) -> AveragedModel:
    """Exponentially averaged weights and batch statistics; the first steps, which are far off, count for less."""

    def average(old: Tensor, new: Tensor, steps: Tensor | int) -> Tensor:
        count = int(steps)
        return old + (1.0 - min(decay, (1.0 + count) / (10.0 + count))) * (new - old)

    return AveragedModel(module, avg_fn=average, use_buffers=True)


def mixture(features: Any, order: Tensor, share: float) -> Any:
    """Each row with another one, in these shares."""
    if isinstance(features, tuple):
        return tuple(mixture(part, order, share) for part in features)
    if not features.is_floating_point():
        raise InputError("expected features that are real numbers with mixup, found whole ones; set mixup to 0")
    return share * features + (1.0 - share) * features[order]


def split(rows: int, share: float, seed: int) -> tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]:
    """Rows to fit on and rows to judge by. Labels play no part."""
    if not share:
        return np.arange(rows), np.arange(0)
    order = np.random.default_rng([seed, 1 << 32]).permutation(rows)
    held = max(1, round(share * rows))
    return np.sort(order[held:]), np.sort(order[:held])
