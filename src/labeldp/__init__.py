"""Label differential privacy: release labels, learn from them, and show others what privacy that gives.

    from labeldp import Classes, Curator, SubsetResponse

    space = Classes(["benign", "malignant"])
    curator = Curator(labels, space, budget=1.0)
    release = curator.randomize(SubsetResponse(space, epsilon=1.0))
    print(release.guarantee)

Names are loaded when they are first used, so that importing the package stays light.
"""

import sys

import lazy_loader

if sys.platform == "win32":
    raise ImportError(
        "expected Linux or macOS, found Windows, which lacks the locks and atomic links that releases need; "
        "install labeldp in WSL (wsl --install)"
    )

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
