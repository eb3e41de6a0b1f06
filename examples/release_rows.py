"""Release rows whose features tell of the label and are not known beforehand: own features, or a generator's."""

import numpy as np
import pandas as pd

from labeldp import Classes, Curator, DoubleResponse, DummyResponse, Form, Generator, Source

SPACE = Classes(["healthy", "ill"])
random = np.random.default_rng()


def readings(codes: np.ndarray) -> pd.DataFrame:
    """Fever and a town, as they are published of healthy and of ill people."""
    fever = np.random.default_rng().normal(36.8 + codes, 0.6)
    return pd.DataFrame({"fever": fever.round(1), "town": np.random.default_rng().choice(["Ulm", "Bonn"], len(codes))})


# The form is read off public rows: own and drawn rows will have its types, digits, range and spelling.
published = readings(np.arange(2000) % 2)
generator = Generator(SPACE, Form.of(published), Source("public", "a published study of fevers"), readings)

# The hospital's own patients. How far their features are from the study's, all labels mixed, is declared.
codes = (random.random(5000) < 0.3).astype(int)
patients, labels = readings(codes), np.array(SPACE.values)[codes]
hospital = Curator(labels, SPACE, budget=2.0)
released = hospital.randomize_rows(
    DoubleResponse(SPACE, epsilon=1.0, generator=generator),
    patients,
    divergences={2.0: 0.5},
    population="the patients of a hospital",
)
print(f"{released.replaced:.1%} of rows have features that are not their own, {released.noise:.1%} a label at random")
print("-", released.certificate.sentence)
assert released.features.schema == generator.form.schema

# Features leave once: who sees them twice knows which are true. Labels alone may leave again, at their own price.
again = hospital.randomize_rows(DummyResponse(SPACE, epsilon=1.0))
print("-", again.conditional[-1])
assert hospital.spent == (2.0, 0.0)
