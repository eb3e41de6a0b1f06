"""The Trainer of Hugging Face, with targets as labels; with several processes, let each Release.load what was saved."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import StackDataset
from transformers import Trainer, TrainingArguments

from labeldp import Classes, Curator
from labeldp.learning.torch import ChannelLoss

images, digits = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
release = Curator(digits[:1500], Classes(range(10))).randomize(epsilon=4.0)
loss = ChannelLoss(release)


class ReleasedLabelTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        logits = model(inputs["features"])
        value = loss(logits, inputs["labels"])
        return (value, {"logits": logits}) if return_outputs else value


kept = {"remove_unused_columns": False, "label_names": ["labels"], "report_to": "none", "save_strategy": "no"}
arguments = TrainingArguments("out", num_train_epochs=20, per_device_train_batch_size=64, learning_rate=0.01, **kept)
network, rows = torch.nn.Linear(64, 10), StackDataset(features=images[:1500], labels=release.targets())
ReleasedLabelTrainer(network, arguments, train_dataset=rows).train()
print(f"accuracy {(network(images[1500:].to(arguments.device)).argmax(1).cpu().numpy() == digits[1500:]).mean():.3f}")
