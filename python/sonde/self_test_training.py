"""The training of the adapter's self-test (sonde/self_test.py); it runs from another directory."""

import torch
from torch import nn
from torch.utils import checkpoint

STEPS = 2


class Net(nn.Module):
    """Convolution, norm, an in-place operator, a checkpoint, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4 * 6 * 6, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (batch, 3) of pictures (batch, 1, 8, 8)."""
        x = self.norm(self.conv(x)).relu_().flatten(1)
        x = checkpoint.checkpoint(self.hidden, x, use_reentrant=False)
        logits: torch.Tensor = self.out(nn.functional.dropout(x, 0.25, self.training))
        return logits


def train() -> tuple[list[bytes], list[dict[str, torch.Tensor]]]:
    """The bytes of all losses and of the trained model; tensors of each step by name."""
    torch.manual_seed(3)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses, tensors = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        x = torch.randn(4, 1, 8, 8)
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0]))
        loss.backward()  # type: ignore[no-untyped-call]
        gradient = model.out.weight.grad
        assert gradient is not None
        tensors.append({"input": x.clone(), "logits": logits.detach().clone(), "gradient": gradient.clone()})
        optimizer.step()
        losses.append(loss.detach())
    return [_bytes(tensor) for tensor in (*losses, *model.state_dict().values())], tensors


def _bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().reshape(-1).view(torch.uint8).tolist())
