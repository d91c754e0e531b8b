"""LoRA of peft on Llama under the Trainer."""

import tempfile

from common import arguments, text, trainer_callback
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer

base = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
)
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], lora_dropout=0.1))
with tempfile.TemporaryDirectory() as directory:
    Trainer(model=model, args=arguments(directory), train_dataset=text(), callbacks=[trainer_callback()]).train()
