"""Writes the weights and the batches that both trainings start from: python make_weights.py lenet.npz

Weights are named and shaped as PyTorch has them; a framework that names them otherwise renames them when it loads."""

import argparse
import pathlib

import numpy as np


def weights(rng):
    """LeNet-5's: each weight uniform in +-1/sqrt(fan in), as both frameworks draw them."""

    def uniform(*shape, fan_in):
        return rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(fan_in))

    layers = {"conv1": (6, 1, 5, 5), "conv2": (16, 6, 5, 5), "fc1": (84, 784), "fc2": (84, 84), "fc3": (10, 84)}
    for name, shape in layers.items():
        fan_in = int(np.prod(shape[1:]))
        yield f"{name}.weight", uniform(*shape, fan_in=fan_in)
        yield f"{name}.bias", uniform(shape[0], fan_in=fan_in)
    yield "bn1.weight", rng.uniform(0.5, 1.5, 6).astype(np.float32)
    yield "bn1.bias", rng.uniform(-0.5, 0.5, 6).astype(np.float32)


def batches(rng, count, size):
    """28 x 28 pictures of ten kinds: a bar at an angle of its own for each label, with noise."""
    y, x = np.mgrid[-1:1:28j, -1:1:28j]
    angles = np.arange(10) * np.pi / 10
    bars = np.stack([np.exp(-20 * (x * np.sin(a) - y * np.cos(a)) ** 2) for a in angles])
    labels = rng.integers(0, 10, (count, size))
    images = bars[labels] + rng.normal(0, 0.2, (count, size, 28, 28))
    return images[:, :, np.newaxis].astype(np.float32), labels.astype(np.int32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--size", type=int, default=16, help="pictures in a batch")
    parser.add_argument("--seed", type=int, default=1998)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    images, labels = batches(rng, options.batches, options.size)
    np.savez(options.file, images=images, labels=labels, **dict(weights(rng)))


if __name__ == "__main__":
    main()
