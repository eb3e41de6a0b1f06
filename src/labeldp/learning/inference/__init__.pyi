from ._coefficients import Coefficient as Coefficient
from ._coefficients import Coefficients as Coefficients
from ._coefficients import coefficients as coefficients
from ._effects import Effects as Effects
from ._effects import mean_difference as mean_difference
from ._effects import OutcomeEffect as OutcomeEffect
from ._effects import treatment_effect as treatment_effect
from ._overlap import Overlap as Overlap
