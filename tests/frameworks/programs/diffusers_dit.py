"""A diffusion transformer (DiT) with a frozen VAE before it."""

import torch
from common import step
from diffusers import AutoencoderKL, DiTTransformer2DModel

vae = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=4).requires_grad_(False).eval()
model = DiTTransformer2DModel(
    num_attention_heads=2,
    attention_head_dim=8,
    in_channels=4,
    num_layers=2,
    norm_num_groups=4,
    sample_size=8,
    num_embeds_ada_norm=10,
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number in range(3):
    with torch.no_grad():
        latents = vae.encode(torch.randn(2, 3, 8, 8)).latent_dist.sample()
    noise, times = torch.randn_like(latents), torch.randint(10, (2,))
    guess = model(latents + noise, timestep=times, class_labels=torch.tensor([1, 2])).sample
    loss = torch.nn.functional.mse_loss(guess.chunk(2, 1)[0] if guess.shape[1] == 8 else guess, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step(number, loss)
