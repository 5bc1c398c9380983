"""A training script without a profiler of its own, for `tracelab collect run`: a small network, 30 steps."""

import torch  # noqa: TID253

device = "cuda" if torch.cuda.is_available() else "cpu"
network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).to(device)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
inputs = torch.randn(256, 64, device=device)
for _ in range(30):
    optimizer.zero_grad()
    network(inputs).square().mean().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
