"""Train with DistributedDataParallel in two processes of torch.multiprocessing, which know their rank only inside."""

import sys

import torch
import torch.distributed as dist
from torch import multiprocessing


def train(rank, rendezvous):
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(train, (sys.argv[1],), nprocs=2)
