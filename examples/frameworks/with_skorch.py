"""skorch: the loss is the criterion, targets are y, and the validation loss is that of released labels."""

import torch
from sklearn.datasets import load_digits
from skorch import NeuralNet
from skorch.dataset import ValidSplit

from labeldp import Classes, Curator
from labeldp.learning.torch import ChannelLoss

images, digits = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
release = Curator(digits[:1500], Classes(range(10))).randomize(epsilon=4.0)

torch.manual_seed(0)
net = NeuralNet(
    torch.nn.Linear(64, 10),
    criterion=ChannelLoss,
    criterion__release=release,
    optimizer=torch.optim.Adam,
    lr=0.01,
    batch_size=64,
    max_epochs=20,
    iterator_train__shuffle=True,
    train_split=ValidSplit(0.1),
    verbose=0,
)
net.fit(images[:1500], release.targets())
print(f"accuracy {(net.predict(images[1500:]).argmax(axis=1) == digits[1500:]).mean():.3f}")
