"""Lightning: the loss is a part of the module; with several processes, let each Release.load what was saved."""

import lightning
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from labeldp import Classes, Curator
from labeldp.learning.torch import ChannelLoss

images, digits = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
release = Curator(digits[:1500], Classes(range(10))).randomize(epsilon=4.0)


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network, self.loss = torch.nn.Linear(64, 10), ChannelLoss(release)

    def training_step(self, batch):
        return self.loss(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


module, rows = Digits(), TensorDataset(images[:1500], torch.from_numpy(release.targets()))
lightning.Trainer(max_epochs=20, logger=False).fit(module, DataLoader(rows, batch_size=64, shuffle=True))
print(f"accuracy {(module.network(images[1500:]).argmax(1).numpy() == digits[1500:]).mean():.3f}")
