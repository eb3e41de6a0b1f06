from ._effective_dimension import EffectiveDimension as EffectiveDimension
from ._effective_dimension import effective_dimension as effective_dimension
from ._forecast import Conventions as Conventions
from ._forecast import Forecast as Forecast
from ._forecast import forecast as forecast
from ._plan import Option as Option
from ._plan import Plan as Plan
from ._plan import plan as plan
