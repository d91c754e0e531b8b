"""Deep Q-learning: a policy that acts without gradients, and a target network that is copied now and then."""

import copy

import torch
from common import step
from torch import nn

policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
target = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-2)
state, memory, number = torch.randn(4), [], 0
for moment in range(12):
    with torch.no_grad():
        action = int(policy(state).argmax()) if moment % 3 else moment % 2
    after = state + torch.randn(4) * 0.1
    memory.append((state, action, float(after.sum()), after))
    state = after
    if moment < 8:
        continue
    states, actions, rewards, afters = (list(column) for column in zip(*memory[-4:], strict=True))
    values = policy(torch.stack(states))[torch.arange(4), torch.tensor(actions)]
    best = target(torch.stack(afters)).max(1).values
    loss = nn.functional.smooth_l1_loss(values, torch.tensor(rewards) + 0.9 * best)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy.parameters(), 1.0)
    optimizer.step()
    step(number, loss)
    number += 1
    if moment % 2:
        target.load_state_dict(policy.state_dict())
