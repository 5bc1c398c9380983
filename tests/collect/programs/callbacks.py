"""Train eight steps of two batches with a library: `python callbacks.py OUT LIBRARY`."""

import sys

import torch
from torch.utils.data import DataLoader

out, library = sys.argv[1:]
data = [{"x": torch.ones(4), "labels": torch.tensor(1.0)} for _ in range(16)]
options = {"out": out, "wait": 2, "active": 3}


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        return {"loss": ((self.layer(x)[:, 0] - labels) ** 2).mean()}


if library == "lightning":
    from lightning.pytorch import LightningModule, Trainer

    from tracelab.collect.callbacks.lightning import RecordCallback

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.network = Network()

        def training_step(self, batch):
            return self.network(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, default_root_dir=out,
        callbacks=[RecordCallback(library, **options)], enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(data, batch_size=2))
elif library == "transformers":
    from transformers import Trainer, TrainingArguments

    from tracelab.collect.callbacks.transformers import RecordCallback

    arguments = TrainingArguments(
        f"{out}/hf", max_steps=8, per_device_train_batch_size=1, gradient_accumulation_steps=2, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    Trainer(Network(), arguments, train_dataset=data, callbacks=[RecordCallback(library, **options)]).train()
else:
    from accelerate import Accelerator

    from tracelab.collect.callbacks.accelerate import record

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    network, optimizer, loader = accelerator.prepare(network, optimizer, DataLoader(data, batch_size=1))
    with record(accelerator, library, **options) as r:
        for batch in loader:
            with accelerator.accumulate(network):
                accelerator.backward(network(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
            r.step()
