"""Sets the variable of the configuration after the import of MindSpore, or after that of Sonde and before it."""

import os
import sys

if "sonde" in sys.argv:
    import sonde  # noqa: F401

    os.environ["MINDSPORE_DUMP_CONFIG"] = sys.argv[1]

import networks
import numpy as np
from mindspore import Tensor, nn, ops

os.environ["MINDSPORE_DUMP_CONFIG"] = os.environ.get("MINDSPORE_DUMP_CONFIG") or sys.argv[1]


class Adding(nn.Cell):
    def construct(self, x):
        return ops.add(x, x)


networks.graph_mode()
print("result", Adding()(Tensor(np.float32(3))))
