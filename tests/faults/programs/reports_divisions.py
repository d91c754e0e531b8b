"""Public reports: divisions by zero, roots at zero, moments of one sample. Rebuilt, not copied."""

import math

import torch
from cases import Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, train

family = Family("reports")

ZERO = ("0 divided by 0", "division by 0")
ROOT = (*ZERO, "sqrt of 0", "root of 0", "derivative")


@family.fault("div", report="Project-MONAI/MONAI#8427", cause=("divided by 0", "division by 0"))
def cosine_schedule_starts_at_one():
    """The cumulated alphas of a cosine schedule begin with exactly 1; the posterior's coefficients divide by 1 - 1."""

    def body(y):
        t = torch.linspace(0, 8, 9)
        alphas = torch.cos((t / 8 + 0.008) / 1.008 * math.pi / 2) ** 2
        alphas = alphas / alphas[0]
        betas = 1 - alphas
        x = y
        for i in (2, 1, 0):
            before = betas[i - 1] if i else torch.zeros(())
            x = x * (alphas[i].sqrt() * before / betas[i])  # FAULT
        return x

    train(Small(body))


@family.fault("div", report="TiankaiHang/Min-SNR-Diffusion-Training#4", cause=ZERO)
def min_snr_weight_of_the_last_step():
    """With a terminal signal-to-noise ratio of zero the weight min(snr, 5) / snr is 0 / 0."""

    def loss_of(out):
        alphas = torch.linspace(1, 0, 6)
        snr = alphas**2 / (1.1 - alphas**2)
        weight = snr.clamp(max=5) / snr  # FAULT
        return (weight * (out - 1).square().mean(-1)).mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("log", report="pytorch/vision#2240", cause="log of 0")
def box_without_width():
    """A target box has no width; the box encoding takes the logarithm of its relative width."""
    targets = torch.tensor([[1.0, 1, 3, 4], [2, 2, 2, 5], [0, 0, 4, 4]])

    def loss_of(out):
        anchors = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5], [0, 0, 8, 8]])
        size, base = targets[:, 2:] - targets[:, :2], anchors[:, 2:] - anchors[:, :2]
        shift = (targets[:, :2] - anchors[:, :2]) / base
        goal = torch.cat([shift, torch.log(size / base)], 1)  # FAULT
        return F.smooth_l1_loss(out[:3], goal)

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault(
    "std", report="DLR-RM/stable-baselines3#1028", cause=("one element", "single", "n - 1", "degrees", "0 divided by 0")
)
def advantages_of_one_sample():
    """The last minibatch of the rollout has one sample; its unbiased standard deviation is not defined."""
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for states in torch.randn(5, 4).split(2):
        advantages = states.sum(1)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)  # FAULT
        optimizer.zero_grad()
        (net(states)[:, 0] * advantages).mean().backward()
        optimizer.step()


@family.fault("pow", "mul", "div", report="kornia/kornia#918", cause=("pow", "0 times", "divided by 0"))
def focal_loss_with_gamma_one_half():
    """A saturated sigmoid makes 1 - p zero, and the derivative of its root is infinite."""

    def loss_of(out):
        p = torch.sigmoid(out * 0 + torch.tensor([-200.0, 200, -200, 200]))
        target = torch.tensor([0.0, 0, 1, 1])
        easy = -torch.pow(1 - p, 0.5) * target * torch.log(p + 1e-8)  # FAULT
        hard = -torch.pow(p, 0.5) * (1 - target) * torch.log(1 - p + 1e-8)  # FAULT
        return (easy + hard).mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", "mul", report="pytorch/pytorch#96813", cause=(*ZERO, "0 times"))
def smooth_l1_with_beta_zero():
    """The quadratic branch divides by beta = 0; torch.where drops its value, not its gradient."""

    def loss_of(out):
        beta = 0.0
        error = (out - out.detach()).abs()
        return torch.where(error < beta, 0.5 * error**2 / beta, error - 0.5 * beta).mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", "mul", "sqrt", report="pytorch/pytorch#2421", cause=ROOT)
def length_of_a_zero_vector():
    """The length of a vector by square, sum and sqrt has no gradient where the vector is zero."""

    def loss_of(out):
        out = out * torch.tensor([[1.0], [1], [1], [0], [1], [1]])
        return out.pow(2).sum(1).sqrt().mean()  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", "mul", "sqrt", report="pytorch/pytorch#2534", cause=ROOT)
def gradient_penalty_of_a_flat_critic():
    """WGAN-GP: the critic is flat at a sample, and the length of its zero gradient is differentiated again."""
    critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    with torch.no_grad():
        critic[0].bias.fill_(-50)
    optimizer = torch.optim.Adam(critic.parameters())
    for _ in range(2):
        x = torch.randn(6, 4, requires_grad=True)
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        length = torch.sqrt((slope**2).sum(1))  # FAULT
        (critic(x).mean() + 10 * ((length - 1) ** 2).mean()).backward()
        optimizer.step()


@family.fault("div", "mul", "sqrt", report="Trusted-AI/adversarial-robustness-toolbox#1658", cause=ROOT)
def magnitude_of_a_silent_frame():
    """The magnitude of a spectrogram by sqrt: a silent frame has an infinite gradient."""

    def loss_of(out):
        signal = out.flatten() * (torch.arange(24) < 16)
        frames = torch.stft(signal, 8, 8, window=torch.ones(8), center=False, return_complex=True)
        spectrum = torch.view_as_real(frames)
        magnitude = torch.sqrt(spectrum.pow(2).sum(-1))  # FAULT
        return magnitude.square().mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", report="KohakuBlueleaf/LyCORIS#166", cause=ZERO)
def decomposed_adapter_of_a_zero_column():
    """DoRA divides the weight by the norm of its columns, and one column is zero."""
    base = torch.randn(4, 4)
    base[:, 2] = 0

    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.zeros(4, 2))
            self.length = nn.Parameter(base.norm(dim=0, keepdim=True))

        def forward(self, x):
            weight = base + self.up @ self.down
            weight = weight / weight.norm(dim=0, keepdim=True)  # FAULT
            return F.linear(x, weight * self.length)

    train(Adapter())


@family.fault("div", report="InternLM/lmdeploy#3652", cause=ZERO)
def quantised_row_of_zeros():
    """The scale of a row of zeros is zero, and the row is divided by it."""

    def body(y):
        y = torch.cat([y, torch.zeros(1, 4)])
        scale = y.detach().abs().amax(-1, keepdim=True) / 127
        codes = y / scale  # FAULT
        return (codes + (codes.round() - codes).detach()) * scale

    train(Small(body))


@family.fault("div", report="VeriSilicon/TIM-VX#589", cause=ZERO)
def epsilon_that_became_an_integer():
    """A layer norm's epsilon passes through an integer and is 0; a constant row is 0 / 0."""
    epsilon = int(1e-5)

    def body(y):
        y = torch.cat([y, torch.ones(1, 4)])
        middle = y - y.mean(-1, keepdim=True)
        return middle / torch.sqrt((middle**2).mean(-1, keepdim=True) + epsilon)  # FAULT

    train(Small(body))


@family.fault("mul", "rsqrt", report="kornia/kornia#4228", cause=("0 times", "times 0", "acos", "square root of 0"))
def rotation_at_the_identity():
    """The logarithm of the identity quaternion: the infinite derivative of acos(1) meets a vector part of zero."""

    def body(y):
        vector, real = y[:, :3] * 0, torch.ones(6, 1) + y[:, 3:] * 0
        angle = torch.acos(real.clamp(-1, 1))  # FAULT
        return vector / vector.norm(dim=-1, keepdim=True).clamp(min=1e-8) * angle

    train(Small(body))


@family.fault("sqrt", "rsqrt", report="keras-team/keras#18795", cause=("negative", "less than 0"))
def variance_by_mean_of_squares():
    """E[x²] - E[x]² is negative by rounding where the mean is much larger than the deviation."""

    def body(y):
        y = torch.tanh(y) * 1e-3 + torch.tensor([1000.1, 1300.7, 1701.3, 2003.9])
        mean = y.mean(0)
        variance = (y * y).mean(0) - mean * mean
        return (y - mean) / torch.sqrt(variance + 1e-5)  # FAULT

    train(Small(body))


@family.fault("ctc_loss", "_ctc_loss", report="wenet-e2e/wenet#2299", cause=("frames", "too short", "longer", "align"))
def utterance_shorter_than_its_text():
    """After subsampling an utterance has fewer frames than labels: its CTC loss is infinite."""
    targets, lengths = torch.tensor([[1, 2, 3, 2]]), torch.tensor([4])

    def loss_of(out):
        frames = out.view(6, 1, 4)[::3].log_softmax(-1)
        return F.ctc_loss(frames, targets, torch.tensor([2]), lengths)  # FAULT

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.fault("div", report="chainer/chainer#6299", cause=ZERO)
def adam_in_half_precision():
    """Adam's epsilon of 1e-8 is 0 in float16; a weight without gradient gets 0 / 0."""
    w = nn.Parameter(torch.randn(4, 4).half())
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    for _ in range(2):
        w.grad = None
        (batch().half() @ w)[:, :3].square().mean().backward()
        with torch.no_grad():
            m = 0.9 * m + 0.1 * w.grad
            v = 0.999 * v + 0.001 * w.grad**2
            w -= 1e-3 * (m / (v.sqrt() + 1e-8))  # FAULT
