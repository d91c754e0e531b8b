"""python sinking.py model|data_sink: LeNet-5 fed by a dataset in sink mode, by Model.train or by data_sink."""

import sys

import mindspore as ms
import mindspore.dataset as ds
import networks
import numpy as np
from mindspore import nn


class Losses(ms.Callback):
    def on_train_step_end(self, run_context):
        networks.print_loss(run_context.original_args().net_outputs)


networks.graph_mode()
images = np.random.rand(12, 1, 32, 32).astype(np.float32)
labels = np.random.randint(0, 10, 12).astype(np.int32)
dataset = ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(4)
network = networks.LeNet5()
if sys.argv[1] == "model":
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)
    model = ms.Model(network, loss_fn=loss, optimizer=optimizer)
    model.train(1, dataset, callbacks=[Losses()], dataset_sink_mode=True)
    networks.print_parameters(model.train_network)
else:
    sunk = ms.data_sink(networks.training_step(network), dataset)
    for _ in range(3):
        networks.print_loss(sunk())
