"""A residual network with channels last and kernels (h, w, i, o) beside one in PyTorch's layout, in training."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

pair = Pair("images")


class GoldenBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(GoldenBlock(8), GoldenBlock(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


class Conv(nn.Module):
    def __init__(self, kernel, bias=None, stride=1):
        super().__init__()
        self.kernel, self.stride = nn.Parameter(kernel.permute(2, 3, 1, 0).contiguous()), stride
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def forward(self, x):
        x = x.permute(0, 3, 1, 2)
        if bad("padding_mode"):
            x = F.pad(x, (1, 1, 1, 1), "replicate")  # bad("padding_mode")
            x = F.conv2d(x, self.kernel.permute(3, 2, 0, 1), self.bias, self.stride)
        else:
            x = F.conv2d(x, self.kernel.permute(3, 2, 0, 1), self.bias, self.stride, 1)
        return x.permute(0, 2, 3, 1)


class Norm(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.scale = nn.Parameter(golden.weight.detach().clone())
        self.shift = nn.Parameter(golden.bias.detach().clone())

    def forward(self, x):
        mean = x.mean((0, 1, 2))
        variance = x.var((0, 1, 2), unbiased=bad("ddof"))
        y = (x - mean) / torch.sqrt(variance + (1e-3 if bad("epsilon") else 1e-5))
        return y * self.scale + self.shift


class Block(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.conv1, self.norm1 = Conv(golden.conv1.weight.detach()), Norm(golden.bn1)
        self.conv2, self.norm2 = Conv(golden.conv2.weight.detach()), Norm(golden.bn2)

    def forward(self, x):
        y = self.norm1(self.conv1(x))
        y = F.leaky_relu(y, 0.1) if bad("leaky") else F.relu(y)
        y = self.norm2(self.conv2(y))
        return x + F.relu(y) if bad("relu_before_sum") else F.relu(x + y)


class Net(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.stem = Conv(golden.stem.weight.detach(), golden.stem.bias.detach(), 2)
        self.blocks = nn.Sequential(*(Block(block) for block in golden.blocks))
        self.head = nn.Linear(8, 5)
        self.head.load_state_dict(golden.head.state_dict())

    def forward(self, x):
        x = self.blocks(F.relu(self.stem(x)))
        return self.head(x.amax((1, 2)) if bad("max_for_mean") else x.mean((1, 2)))


@pair.prepare
def prepare():
    golden = Golden()
    with torch.no_grad():
        for weight in golden.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    target = Net(golden)
    with torch.no_grad():
        if bad("kernel_flipped"):
            target.blocks[1].conv2.kernel.copy_(target.blocks[1].conv2.kernel.flip((0, 1)))
        if bad("not_loaded"):
            target.head.weight.copy_(target.head.weight.roll(1, 0) * 0.9 + 0.01)
    x, y = torch.randn(4, 3, 12, 10), torch.randint(0, 5, (4,))
    last = x.permute(0, 2, 3, 1).contiguous()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (golden, target)]

    def run_golden():
        F.cross_entropy(golden(x), y).backward()
        optimizers[0].step()

    def run_target():
        F.cross_entropy(target(last), y, label_smoothing=0.1 if bad("smoothing") else 0.0).backward()
        optimizers[1].step()

    return run_golden, run_target


pair.fault("padding_mode", "pad", "replication_pad2d", "conv2d")
pair.fault("ddof", "var")
pair.fault("epsilon", "add", "sqrt", "div")
pair.fault("leaky", "leaky_relu")
pair.fault("relu_before_sum", "relu", "add")
pair.fault("max_for_mean", "amax")
pair.fault("smoothing", "cross_entropy_loss")
pair.weight("kernel_flipped", "blocks.1.conv2.kernel")
pair.weight("not_loaded", "head.weight")
