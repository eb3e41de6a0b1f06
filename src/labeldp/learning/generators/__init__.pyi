from ._fit import FittedGenerator as FittedGenerator
from ._fit import fit_cells as fit_cells
from ._fit import fit_copula as fit_copula
from ._fit import open_generator as open_generator
from ._tables import Trial as Trial
from ._tables import from_public_table as from_public_table
from ._tables import from_release as from_release
from ._tables import two_sample_accuracy as two_sample_accuracy
