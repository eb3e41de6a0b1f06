"""Cells: groups of rows by public features alone, as boxes, trees and clusters."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "cluster",
    "cluster_tree",
    "embed",
    "grid_cells",
    "held_out_cells",
    "mean_cells",
    "suggested_count",
    "suggested_eigenvectors",
    "tree_cells",
]
