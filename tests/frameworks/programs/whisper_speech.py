"""Whisper learns from spectra: an encoder of convolutions and a decoder."""

import torch
from common import step
from transformers import WhisperConfig, WhisperForConditionalGeneration

model = WhisperForConditionalGeneration(
    WhisperConfig(
        vocab_size=64,
        num_mel_bins=8,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_source_positions=16,
        max_target_positions=16,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for number in range(3):
    loss = model(input_features=torch.randn(2, 8, 32), labels=torch.randint(3, 64, (2, 6))).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step(number, loss)
