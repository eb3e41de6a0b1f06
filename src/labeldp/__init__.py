"""Label differential privacy: release labels, learn from them, and defend the epsilon.

    from labeldp import Classes, Curator, SubsetResponse

    space = Classes(["benign", "malignant"])
    curator = Curator(labels, space, budget=1.0)
    release = curator.randomize(SubsetResponse(space, epsilon=1.0))
    print(release.guarantee)

Names are loaded when they are first used, so that importing the package stays light.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp.mechanisms import BitResponse, PriorResponse, RandomizedResponse, SubsetResponse, TopKResponse
    from labeldp.mechanisms import ClusterResponse as ClusterResponse
    from labeldp.mechanisms import DoubleResponse as DoubleResponse
    from labeldp.mechanisms import DummyResponse as DummyResponse
    from labeldp.mechanisms import LabelMoments as LabelMoments
    from labeldp.mechanisms import NoisyArgmax as NoisyArgmax
    from labeldp.mechanisms import NoisyGradients as NoisyGradients
    from labeldp.mechanisms import NoisyHistogram as NoisyHistogram
    from labeldp.mechanisms import NoisyMean as NoisyMean
    from labeldp.mechanisms import NoisyQuantile as NoisyQuantile
    from labeldp.mechanisms import NumberMoments as NumberMoments
    from labeldp.mechanisms import PeerExchange as PeerExchange
    from labeldp.mechanisms import PriorSubsetResponse as PriorSubsetResponse
    from labeldp.mechanisms import Randomizer as Randomizer
    from labeldp.privacy import Channel as Channel
    from labeldp.privacy import Classes, Guarantee, Interval
    from labeldp.release import Answer as Answer
    from labeldp.release import Certificate as Certificate
    from labeldp.release import Curator, Release
    from labeldp.release import RowRelease as RowRelease
    from labeldp.release import release_table as release_table
    from labeldp.release import verify as verify

_ROOMS = {
    "Answer": "release",
    "BitResponse": "mechanisms",
    "Budget": "privacy",
    "Certificate": "release",
    "Channel": "privacy",
    "Classes": "privacy",
    "ClusterResponse": "mechanisms",
    "Curator": "release",
    "DoubleResponse": "mechanisms",
    "DummyResponse": "mechanisms",
    "Guarantee": "privacy",
    "Interval": "privacy",
    "LabelMoments": "mechanisms",
    "NoisyArgmax": "mechanisms",
    "NoisyGradients": "mechanisms",
    "NoisyHistogram": "mechanisms",
    "NoisyMean": "mechanisms",
    "NoisyQuantile": "mechanisms",
    "NumberMoments": "mechanisms",
    "PeerExchange": "mechanisms",
    "PriorResponse": "mechanisms",
    "PriorSubsetResponse": "mechanisms",
    "RandomizedResponse": "mechanisms",
    "Randomizer": "mechanisms",
    "Release": "release",
    "RowRelease": "release",
    "SubsetResponse": "mechanisms",
    "TopKResponse": "mechanisms",
    "cluster_response": "release",
    "release_table": "release",
    "verify": "release",
}

__all__ = [
    "Answer",
    "BitResponse",
    "Budget",
    "Certificate",
    "Channel",
    "Classes",
    "ClusterResponse",
    "Curator",
    "DoubleResponse",
    "DummyResponse",
    "Guarantee",
    "Interval",
    "LabelMoments",
    "NoisyArgmax",
    "NoisyGradients",
    "NoisyHistogram",
    "NoisyMean",
    "NoisyQuantile",
    "NumberMoments",
    "PeerExchange",
    "PriorResponse",
    "PriorSubsetResponse",
    "RandomizedResponse",
    "Randomizer",
    "Release",
    "RowRelease",
    "SubsetResponse",
    "TopKResponse",
    "__version__",
    "cluster_response",
    "release_table",
    "verify",
]


def __getattr__(name: str) -> object:
    """Load a name of the front door from its room."""
    if name == "__version__":
        return importlib.metadata.version("labeldp")
    if name not in _ROOMS:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"labeldp.{_ROOMS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names of the front door."""
    return sorted(__all__)
