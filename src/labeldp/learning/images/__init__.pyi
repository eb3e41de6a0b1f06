from ._kernel_features import KernelFeatures as KernelFeatures
from ._patch_classifier import PatchClassifier as PatchClassifier
from ._patch_classifier import ImageRows as ImageRows
from ._patch_classifier import likeliest_features as likeliest_features
from ._patch_features import PADDING as PADDING
from ._patch_features import THRESHOLD as THRESHOLD
from ._patch_features import PatchFeatures as PatchFeatures
from ._patch_features import cell_weights as cell_weights
