"""Choice by released labels: folds of privacy units, learners under each of their settings, and gains of held-out rows.

Whatever is chosen, a setting, a weight or a constant, is chosen on released labels of units that it was not fitted on.
That is post-processing of a release, and costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
