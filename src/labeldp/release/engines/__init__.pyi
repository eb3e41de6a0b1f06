from ._engine import Count as Count
from ._engine import Engine as Engine
from ._engine import InProcess as InProcess
from ._engine import Tick as Tick
from ._open import open_engine as open_engine
from ._submitted import Executor as Executor
from ._submitted import Processes as Processes
from ._submitted import engine_of as engine_of
