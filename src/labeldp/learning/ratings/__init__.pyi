from ._gibbs import Entities as Entities
from ._factorization import FactorizationClassifier as FactorizationClassifier
from ._gibbs import Draw as Draw
