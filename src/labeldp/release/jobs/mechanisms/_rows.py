"""Labels by randomized response, with resampled features or none: features are private too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from labeldp.mechanisms.resampling import POPULATION, DoubleResponse, DummyResponse, FeatureLaw, Generator
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.release.folder import column_types
from labeldp.release.jobs.mechanisms._table_mechanism import TableInput, TableMechanism, TableRequest, option

_ALONE = "features are private, so the split into files is, and all rows go into one file"

if TYPE_CHECKING:  # it loads slowly, and a list of mechanisms does without
    from labeldp.release.curator import Curator


@dataclass(frozen=True, eq=False)
class DoubleMechanism(TableMechanism):
    """Randomized response on the label, and features that a generator resamples for some rows (``DoubleResponse``).

    Args:
        generator: A file from 'labeldp generator', or module:name (in Python: a ``Generator``); it draws the kept
            columns.
        replaced: Probability that features are resampled; default: the same as for the label.
        divergences (ALPHA=D): Declared bound on the divergence of the true features of any label from the generator's
            features of all labels mixed, for each order; declare more than 'labeldp generator' estimates.
        population: A description of the population, printed in the guarantee.
    """

    generator: Generator | None = option("--generator", hint="a file from 'labeldp generator': --generator FILE")
    replaced: float | None = option("--replaced", float)
    divergences: Mapping[float, float] | None = option("--divergence", list)
    population: str = option("--population", default=POPULATION)

    name: ClassVar[str] = DoubleResponse.name
    about: ClassVar[str] = DoubleResponse.about
    alone: ClassVar[str] = _ALONE
    needs: ClassVar[tuple[str, ...]] = ("generator",)

    @property
    def resampled(self) -> Sequence[str]:
        """The features that the generator draws."""
        return self.generator.form.names if self.generator else ()

    def check(self, space: LabelSpace, epsilon: float) -> DoubleResponse:
        """The response."""
        generator: Any = self.generator
        return DoubleResponse(space, epsilon, generator, self.replaced)

    def on(self, table: TableInput) -> TableRequest:
        """The request; a generator that was fitted on the first rows is refused, and columns of other types."""
        source, response = table.source, table.made
        form = response.generator.form
        for batch in source.table.batches(form.names, source.rows_per_batch):
            response.generator.check_private(form.table(form.read(pa.Table.from_batches([batch]))))
            break
        types = dict(zip(form.schema.names, form.schema.types, strict=True))
        law = response.law(self.population, self.divergences)
        return _rows_request(table, law, types, self.divergences, self.population)


@dataclass(frozen=True, eq=False)
class DummyMechanism(TableMechanism):
    """Randomized response on the label, without features (``DummyResponse``)."""

    name: ClassVar[str] = DummyResponse.name
    about: ClassVar[str] = DummyResponse.about
    alone: ClassVar[str] = _ALONE
    features: ClassVar[bool] = False

    def check(self, space: LabelSpace, epsilon: float) -> DummyResponse:
        """The response."""
        return DummyResponse(space, epsilon)

    def on(self, table: TableInput) -> TableRequest:
        """The request."""
        return _rows_request(table, FeatureLaw.without_features(table.source.space.size), {}, None, POPULATION)


def _rows_request(table: TableInput, law: FeatureLaw, types: Mapping[str, pa.DataType], *options: Any) -> TableRequest:
    """The request for labels and features, whose guarantee with conditional features is possible."""
    response, source = table.made, table.source
    channel = response.labels.channel()
    law.conditional(channel)  # refuse an impossible guarantee before any charge

    def ask(curator: Curator) -> Any:
        return curator._randomize_rows(response, None, None, *options)

    added = column_types(source.table.label, source.space, channel)
    return TableRequest(response.name, Guarantee(channel.epsilon), added, ask, types=types, law=law)
