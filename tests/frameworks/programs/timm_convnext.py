"""ConvNeXt of timm with timm's optimizer, loss and averaged model (EMA), evaluated at the end."""

import torch
from common import results, step, with_vision

operators = with_vision()
import timm  # noqa: E402
from timm.loss import LabelSmoothingCrossEntropy  # noqa: E402
from timm.optim import create_optimizer_v2  # noqa: E402
from timm.utils import ModelEmaV3  # noqa: E402

model = timm.create_model("convnext_atto", num_classes=4, depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), drop_path_rate=0.1)
average = ModelEmaV3(model, decay=0.9)
optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=0.05)
loss_of = LabelSmoothingCrossEntropy(0.1)
for number in range(3):
    loss = loss_of(model(torch.randn(2, 3, 32, 32)), torch.tensor([0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model)
    step(number, loss)
model.eval()
with torch.no_grad():
    results["averaged"] = repr(average.module(torch.ones(1, 3, 32, 32)).sum().item())
