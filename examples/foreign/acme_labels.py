"""A query and a randomizer outside ``labeldp``: its curators, certificates, verification and command line know them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from labeldp import RandomizedResponse, TableMechanism
from labeldp.mechanisms.queries import (
    CountQuery,
    LawFields,
    StoredForm,
    check_steps,
    discrete_laplace,
    integer,
    laplace_deviation,
)
from labeldp.mechanisms.randomizers import ClassRandomizer
from labeldp.release import answer_request


@dataclass(frozen=True, eq=False)
class CountOfOneClass(CountQuery):
    """The number of labels of one class in each cell, with discrete Laplace noise; shape (cells,).

    A replaced label moves one count by one at most, where a whole histogram moves by two: half of the noise.
    """

    of: Any = field(kw_only=True)
    name: ClassVar[str] = "acme-count"
    about: ClassVar[str] = "Count of one class in each cell, with discrete Laplace noise"

    @property
    def parameters(self) -> dict[str, Any]:
        """The code of the class."""
        return {"class": str(self.space.points.index(self.of))}

    @classmethod
    def parameter_fields(cls) -> LawFields:
        """The code of the class."""
        return LawFields({"class": integer}, {})

    @classmethod
    def sensitivity_of(cls, parameters, space) -> int:
        """One count moves by one."""
        if not 0 <= int(parameters["class"]) < space.size:
            raise ValueError("expected a class of the space, found another")
        return 1

    def values(self, counts, rate, words) -> np.ndarray:
        """The count of each cell with noise."""
        return counts[:, int(self.parameters["class"])] + discrete_laplace(len(counts), rate, words)

    @classmethod
    def stored(cls, _, __) -> StoredForm:
        """A column of counts."""
        return StoredForm(("count",), "number", by_row=False)

    @classmethod
    def check_value(cls, value, _, __) -> None:
        """Counts are whole numbers."""
        check_steps(value, 0)

    @classmethod
    def standard_error(cls, law: Mapping[str, Any], _, __) -> np.ndarray:
        """The standard deviation of the noise, the same on each count."""
        return np.asarray(laplace_deviation(int(law["rate"]), int(law["parts"])))


@dataclass(frozen=True, eq=False)
class CountMechanism(TableMechanism):
    """The count of the first class of a table: ``labeldp release --mechanism acme-count``."""

    name: ClassVar[str] = CountOfOneClass.name
    about: ClassVar[str] = "Count of the first class, with discrete Laplace noise; no rows"
    by_unit: ClassVar[bool] = True
    rows: ClassVar[bool] = False

    def check(self, space, epsilon) -> CountOfOneClass:
        """The query."""
        return CountOfOneClass(space, epsilon, of=space.points[0])

    def on(self, table):
        """Its request, whose answer is one whole number."""
        return answer_request(table.made, table, np.zeros(1, np.int64))


@dataclass(frozen=True, eq=False)
class ThreeQuarters(ClassRandomizer):
    """Randomized response that keeps a label of two classes with probability 3/4, whatever epsilon above log 3 allows.

    Its channel is one of ``labeldp``, so nothing but the choice of its integers is its own.
    """

    name: ClassVar[str] = "acme-three-quarters"
    about: ClassVar[str] = "Randomized response of two classes that keeps a label with probability 3/4 at most"

    def channel(self):
        """Randomized response at the largest epsilon of at most log 3."""
        return RandomizedResponse(self.space, min(self.epsilon, float(np.log(3.0)))).channel()

    @property
    def detail(self) -> str:
        """One class."""
        return "one class"

    @property
    def mass(self) -> np.ndarray:
        """Every class can be released."""
        return np.ones(())
