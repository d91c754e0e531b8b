"""Programs whose faulty operator is beside one that only passes its values on: a gather, a cast, a transform without
statistics of its own."""

import torch
import torch.nn.functional as F
from cases import OVERFLOW, TENSORS, Family
from finite_training import network_of, rows, training
from torch import nn

family = Family("beside another operator")


def _gathered(reduce):
    def forward(s, x):
        h = s.fc(x)
        best = h.gather(-1, h.argmax(-1, keepdim=True))
        return s.out(h + best) * reduce(h, best)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("maximum", "minimum")
def smaller_in_place_of_larger_before_a_gather(wrong):
    """torch.minimum in place of torch.maximum."""

    def reduce(h, best):
        low = torch.zeros_like(h)
        h = torch.minimum(h, low) if wrong else torch.maximum(h, low)  # FAULT
        return h.gather(-1, h.abs().argmin(-1, keepdim=True)) + h.mean(-1, keepdim=True) + best

    _gathered(reduce)


@family.differs("mean", "div", "sum")
def quotient_in_place_of_a_mean_before_a_gather(wrong):
    """A sum divided by another number of elements than the mean's."""

    def reduce(h, best):
        m = h.sum(-1, keepdim=True) / 7 if wrong else h.mean(-1, keepdim=True)  # FAULT
        m = torch.cat([m, best], -1)
        return m.gather(-1, m.argmin(-1, keepdim=True)).tanh()

    _gathered(reduce)


@family.differs("amax", "amin")
def smallest_in_place_of_largest_after_a_gather(wrong):
    """amin in place of amax, over what a gather took."""

    def reduce(h, best):
        some = h.gather(-1, h.argsort(-1)[:, ::2])
        return (some.amin(-1, keepdim=True) if wrong else some.amax(-1, keepdim=True)) + best  # FAULT

    _gathered(reduce)


def _then_cast(change, dtype=torch.bfloat16):
    def forward(s, x):
        h = change(s.fc(x))
        h = h.to(dtype)
        return s.out(F.gelu(h.float()))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("mul")
def golden_run_scales_before_a_cast(wrong):
    """The golden run has an operator that is missing here, and a cast reads its result."""
    _then_cast(lambda h: h if wrong else h * 1.5)  # FAULT


@family.differs("clamp")
def golden_run_clips_before_a_cast_to_float16(wrong):
    _then_cast(lambda h: h if wrong else h.clamp(-0.1, 0.1), torch.float16)  # FAULT


@family.differs("roll", evidence=(TENSORS,))
def golden_run_rolls_before_a_cast(wrong):
    _then_cast(lambda h: h if wrong else h.roll(1, -1))  # FAULT


spectra = Family("complex values")


@spectra.fault("div", verdicts=("operator",), evidence=(TENSORS, OVERFLOW))
def phase_of_nothing():
    """A spectrum divided by its absolute values, of which some are 0; statistics of complex values do not exist."""

    def forward(s, x):
        z = torch.fft.rfft(s.fc(x) * 0)
        z = z / z.abs()  # FAULT
        return s.out(torch.fft.irfft(z, n=8))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@spectra.fault("log", verdicts=("operator",), evidence=(TENSORS, OVERFLOW))
def logarithm_of_an_empty_spectrum():
    def forward(s, x):
        z = torch.fft.fft(s.fc(x) * 0).log()  # FAULT
        return s.out(torch.fft.ifft(z).real + z.imag)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))
