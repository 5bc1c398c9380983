"""Train a small convolutional network on generated digits; the shape of PyTorch's MNIST example, knows no profiler."""

import argparse
import os
import signal
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812  as everywhere
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.fc = nn.Linear(8 * 12 * 12, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--kill-rank", type=int)
    args = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4 * args.steps, 1, 28, 28), torch.randint(0, 10, (4 * args.steps,)))
    model = nn.parallel.DistributedDataParallel(Net()) if dist.is_initialized() else Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    for step, (images, digits) in enumerate(DataLoader(data, batch_size=4)):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), digits)
        loss.backward()
        optimizer.step()
        if step == 4 and dist.is_initialized() and dist.get_rank() == args.kill_rank:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
