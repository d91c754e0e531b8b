"""A UNet of diffusers learns to remove noise, with averaged weights (EMA); a picture sampled."""

import torch
from common import results, step
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

model = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(8, 16),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=4,
    attention_head_dim=4,
)
schedule = DDPMScheduler(num_train_timesteps=10)
average = EMAModel(model.parameters())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number in range(3):
    clean, noise = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    times = torch.randint(10, (2,))
    loss = torch.nn.functional.mse_loss(model(schedule.add_noise(clean, noise, times), times).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    average.step(model.parameters())
    step(number, loss)
pipeline = DDPMPipeline(model, schedule)
pipeline.set_progress_bar_config(disable=True)
picture = pipeline(num_inference_steps=2, output_type="np").images
results["picture"] = repr(float(picture.sum()))
