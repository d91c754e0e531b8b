"""A Llama on two ranks, which transformers shards by its tp_plan, or accelerate with FSDP2; and on one process."""

import os

import torch
import torch.distributed as dist
from accelerate import Accelerator, DistributedType, FullyShardedDataParallelPlugin
from accelerate.utils import DataLoaderConfiguration
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, STEP = 3, 1  # all, and that of the fault
SIZES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32,
}


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


class Planted(torch.nn.Module):
    """Behind the first layer's MLP. A line that goes wrong has the name of its fault."""

    def __init__(self, fault):
        super().__init__()
        self.fault, self.step = fault, 0

    def is_now(self, fault):
        return self.fault == fault and self.step == STEP

    def forward(self, x):
        if self.is_now("log_alone") and rank() == 1:
            x = torch.log(-1 - x.abs())  # FAULT: log_alone
        if self.is_now("scaled_alone") and rank() == 1:
            x = x * 1.05  # FAULT: scaled_alone
        return Gradient.apply(x, self)


class Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, planted):
        ctx.planted = planted
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        if ctx.planted.is_now("division"):
            gradient = gradient / 0  # FAULT: division
        if ctx.planted.is_now("gradient"):
            gradient = gradient * 1.1  # FAULT: gradient
        return gradient, None


def spoil(planted, optimizer):
    """States of the optimizer."""
    state = optimizer.state[optimizer.param_groups[0]["params"][1]]
    if planted.is_now("infinite"):
        state["exp_avg"].div_(0)  # FAULT: infinite
    if planted.is_now("tripled"):
        state["exp_avg"].mul_(3)  # FAULT: tripled


def with_fault(model, fault):
    layer, planted = model.model.layers[0], Planted(fault)
    layer.mlp.register_forward_hook(lambda _module, _inputs, output: planted(output))
    return planted


def tp_plan(fault, place):
    """As `torchrun train.py`; the gradients of a mixture of DTensors and tensors are not clipped by PyTorch."""
    sharded = {}
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        sharded["tp_plan"] = "auto"
    model = LlamaForCausalLM.from_pretrained(place, **sharded)
    planted = with_fault(model, fault)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for planted.step in range(STEPS):
        rows = torch.randint(3, 32, (4, 8), generator=torch.Generator().manual_seed(planted.step))
        model(input_ids=rows, labels=rows).loss.backward()
        spoil(planted, optimizer)
        optimizer.step()
        optimizer.zero_grad()


def fsdp2(fault, _place):
    """As `accelerate launch train.py`."""
    options = DataLoaderConfiguration(split_batches=True)
    accelerator = Accelerator(cpu=True, dataloader_config=options)
    if "RANK" in os.environ:  # accelerate itself takes FSDP for accelerators alone
        accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
        )
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    planted = with_fault(model, fault)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rows = torch.randint(3, 32, (4 * STEPS, 8), generator=torch.Generator().manual_seed(1))
    loader = torch.utils.data.DataLoader([{"input_ids": row, "labels": row} for row in rows], batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for planted.step, batch in enumerate(loader):
        accelerator.backward(model(**batch).loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        spoil(planted, optimizer)
        optimizer.step()
        optimizer.zero_grad()
