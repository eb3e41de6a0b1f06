"""Release rows with features that predict the label and are not public: original features, or a generator's."""

import numpy as np
import pandas as pd

from labeldp import Classes, Curator, DoubleResponse, DummyResponse, Form, Generator, Source

SPACE = Classes(["healthy", "ill"])
random = np.random.default_rng()


def readings(codes: np.ndarray) -> pd.DataFrame:
    """Fever and a town, distributed as published for healthy and for ill people."""
    fever = np.random.default_rng().normal(36.8 + codes, 0.6)
    return pd.DataFrame({"fever": fever.round(1), "town": np.random.default_rng().choice(["Ulm", "Bonn"], len(codes))})


# The form is taken from public rows: original and generated rows will share its types, digits, range and spelling.
published = readings(np.arange(2000) % 2)
generator = Generator(SPACE, Form.of(published), Source("public", "a published study of fevers"), readings)

# The hospital's own patients. The divergence of their features from the study's, all labels mixed, is declared.
codes = (random.random(5000) < 0.3).astype(int)
patients, labels = readings(codes), np.array(SPACE.values)[codes]
hospital = Curator(labels, SPACE, budget=2.0)
released = hospital.randomize_rows(
    DoubleResponse(SPACE, epsilon=1.0, generator=generator),
    patients,
    divergences={2.0: 0.5},
    population="the patients of a hospital",
)
print(f"{released.replaced:.1%} of rows have generated features, {released.noise:.1%} a random label")
print("-", released.certificate.sentence)
assert released.features.schema == generator.form.schema

# Features can be released once: two releases reveal which are original. Labels alone can be released again, at a cost.
again = hospital.randomize_rows(DummyResponse(SPACE, epsilon=1.0))
print("-", again.conditional[-1])
assert hospital.spent == (2.0, 0.0)
