"""Nothing is wrong: masks, guards, skipped steps, numbers that are only printed."""

import ctypes
import math

import torch
from cases import STATISTICS, TENSORS, Family
from torch import nn
from torch.nn import functional as F
from training import Small, batch, parallel, train

family = Family("healthy")
NAN, INF = float("nan"), float("inf")


class Attention(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(8, 20)
        self.attend = attend

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.out(self.attend(self.q(x), self.k(x), self.v(x), tokens))


def language(attend):
    tokens = torch.tensor([[1, 2, 3, 4, 0], [5, 6, 0, 0, 0]])
    net = Attention(attend)
    train(net, tokens, loss_of=lambda out: F.cross_entropy(out.flatten(0, 1), tokens.flatten(), ignore_index=0))


@family.healthy(short=True)
def causal_mask():
    def attend(q, k, v, tokens):
        causal = torch.triu(torch.full((5, 5), -INF), 1)
        return torch.softmax(q @ k.transpose(1, 2) / 3 + causal, -1) @ v

    language(attend)


@family.healthy()
def padding_mask():
    def attend(q, k, v, tokens):
        scores = (q @ k.transpose(1, 2)).masked_fill((tokens == 0)[:, None], -INF)
        return F.softmax(scores, -1) @ v

    language(attend)


@family.healthy()
def fused_attention():
    def attend(q, k, v, tokens):
        mask = torch.zeros(2, 1, 5).masked_fill((tokens == 0)[:, None], -INF)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    language(attend)


@family.healthy()
def encoder_layer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    train(layer, torch.randn(2, 5, 8), loss_of=lambda out: out.mean())
    net = Small(lambda y: layer(y.view(2, 5, 8), src_mask=mask), 8, 8)
    train(net, torch.randn(10, 8))


@family.healthy()
def finite_rows_of_a_masked_softmax():
    """A row that is completely masked is NaN, and where() removes it before anything reads it."""

    def attend(q, k, v, tokens):
        scores = (q @ k.transpose(1, 2)).masked_fill(((tokens == 0)[:, None]) | (tokens == 0)[:, :, None], -INF)
        attention = torch.softmax(scores.detach(), -1)
        return torch.nan_to_num(attention) @ v

    language(attend)


@family.healthy()
def top_k_filter():
    def loss_of(out):
        kth = out.topk(2, -1).values[:, -1:]
        filtered = out.masked_fill(out < kth, -INF)
        return -(torch.softmax(filtered, -1) * out).sum(-1).mean()

    train(nn.Linear(4, 6), loss_of=loss_of)


@family.healthy()
def top_p_sampling():
    net = nn.Linear(4, 6)
    with torch.no_grad():
        for _ in range(3):
            logits = net(batch())
            ordered, index = torch.sort(logits, descending=True)
            remove = torch.softmax(ordered, -1).cumsum(-1) > 0.6
            remove[:, 0] = False
            logits = logits.masked_fill(remove.scatter(1, index, remove), -INF)
            torch.multinomial(torch.softmax(logits, -1), 1)


@family.healthy()
def log_of_a_mask():
    keep = torch.tensor([1.0, 1, 0, 1])
    train(Small(lambda y: torch.softmax(y + torch.log(keep), -1)))


@family.healthy()
def logsumexp_over_absent_classes():
    absent = torch.tensor([0.0, 0, -INF, 0])
    train(nn.Linear(4, 4), loss_of=lambda out: torch.logsumexp(out + absent, -1).mean())


@family.healthy()
def log_guarded_on_both_sides():
    def body(y):
        positive = y > 0
        safe = torch.where(positive, y, torch.ones_like(y))
        return torch.where(positive, torch.log(safe), torch.zeros_like(y))

    train(Small(body))


@family.healthy(short=True)
def scaler_skips_a_step():
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**125)
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale((net(torch.ones(3, 4)) * 1e3).square().mean()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


@family.healthy()
def scaler_skips_without_unscale():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (net(torch.ones(3, 4)).float() * 1e3).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@family.healthy(short=True)
def perplexity_is_printed():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss = (net(batch()) * 1000).square().mean()
        print("perplexity", torch.exp(loss.detach()).item())
        loss.backward()
        optimizer.step()


@family.healthy()
def f1_of_no_positives_is_printed():
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        out = net(batch())
        with torch.no_grad():
            right = (out > 100).float().sum()
            precision, recall = right / right, right / (right + 3)
            f1 = 2 * precision * recall / (precision + recall)
            print(f"F1 {f1:.3f} {precision.item()}")
        out.square().mean().backward()
        optimizer.step()


@family.healthy()
def metrics_kept_in_a_list():
    """Nothing in the run reads them."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    kept = []
    for _ in range(2):
        optimizer.zero_grad()
        out = net(batch())
        count = (out.detach() > 100).sum(0)
        kept.append(out.detach().sum(0) * 0 / count)
        out.square().mean().backward()
        optimizer.step()


@family.healthy()
def dropout_and_pooling():
    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)

        def forward(self, x):
            y = F.pad(self.conv(x), (1, 1, 1, 1), value=-INF)
            return F.dropout(F.max_pool2d(y, 2), 0.5)

    train(Pool(), torch.randn(2, 1, 8, 8))


@family.healthy()
def running_maximum_begins_at_minus_infinity():
    def body(y):
        best = torch.full((4,), -INF)
        for row in y:
            best = torch.maximum(best, row)
        return y - best

    train(Small(body))


@family.healthy()
def sparse_softmax_by_segments():
    segment = torch.tensor([0, 0, 1, 1, 3, 3])

    def body(y):
        high = torch.full((4, 4), -INF).index_reduce(0, segment, y.detach(), "amax")
        weight = torch.exp(y - high[segment])
        total = torch.zeros(4, 4).index_add(0, segment, weight)
        return weight / total[segment]

    train(Small(body))


@family.healthy()
def missing_values_are_left_out():
    data = torch.tensor([[1.0, NAN, 2, 3], [NAN, 1, 1, 1]])

    def body(y):
        known = ~torch.isnan(data)
        filled = torch.where(known, data, torch.zeros(()))
        return y * filled + torch.nanmean(data, 1, keepdim=True) + torch.nan_to_num(data)

    train(Small(body), batch(rows=2))


@family.healthy()
def labels_smoothed():
    targets = torch.tensor([0, 1, 2, -100, 0, 1])
    train(nn.Linear(4, 4), loss_of=lambda out: F.cross_entropy(out, targets, label_smoothing=0.1))


@family.healthy()
def best_loss_begins_at_infinity():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    best = torch.tensor(INF)
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(batch()).square().mean()
        loss.backward()
        optimizer.step()
        plateau.step(loss.item())
        best = torch.minimum(best, loss.detach())
    assert math.isfinite(best.item())


@family.healthy()
def sigmoid_by_hand():
    train(Small(lambda y: y * (1 / (1 + torch.exp(-(y.detach() * 0 - 200)))) + y))


@family.healthy()
def ctc_with_zero_infinity():
    targets = torch.tensor([[1, 1, 1, 2]])

    def loss_of(out):
        log_p = out.log_softmax(-1).view(3, 2, 4)[:, :1]
        return F.ctc_loss(log_p, targets, torch.tensor([3]), torch.tensor([4]), zero_infinity=True)

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.healthy()
def clamped_ratio():
    def body(y):
        ratio = torch.exp(y.detach() * 0 + 100)
        return y * torch.clamp(ratio, 0.8, 1.2)

    train(Small(body))


@family.healthy()
def distance_matrix_without_its_diagonal():
    def loss_of(out):
        distance = torch.cdist(out, out.detach() + 1)
        distance = distance + torch.diag(torch.full((6,), INF))
        return distance.min(-1).values.mean()

    train(nn.Linear(4, 4), loss_of=loss_of)


@family.healthy()
def beam_search_scores():
    net = nn.Linear(4, 6)
    with torch.no_grad():
        for _ in range(2):
            scores = torch.full((2, 3), -INF)
            scores[:, 0] = 0
            logp = torch.log_softmax(net(batch()).view(2, 3, 6), -1)
            total = (scores[:, :, None] + logp).flatten(1)
            best, index = total.topk(3, -1)
            print(best[:, 0].tolist(), index[:, 0].tolist())


@family.healthy()
def metric_compared_with_the_best():
    """0 / 0 as long as nothing is found; `if f1 > best` is False."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    best = 0
    for _ in range(2):
        optimizer.zero_grad()
        out = net(batch())
        out.square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            found = (net(batch()) > 100).float().sum()
            f1 = found / found
            if f1 > best:
                best = f1.item()


@family.healthy()
def classes_that_are_absent():
    """Intersection over union, of the existing classes."""
    net = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        out = net(batch())
        out.square().mean().backward()
        optimizer.step()
        predicted = out.detach().argmax(-1)
        hits = torch.stack([((predicted == c) & (predicted < 1)).sum() for c in range(4)])
        union = torch.stack([(predicted == c).sum() for c in range(4)])
        iou = hits / union
        print("mIoU", iou[~torch.isnan(iou)].mean().item(), torch.nanmean(iou).item())


@family.healthy()
def metric_skipped_when_nan():
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    total = 0.0
    for _ in range(2):
        optimizer.zero_grad()
        out = net(batch())
        out.square().mean().backward()
        optimizer.step()
        found = (out.detach() > 100).float().sum()
        recall = found / found
        if not torch.isnan(recall):
            total += recall.item()


@family.healthy()
def perplexity_of_an_evaluation():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        net(batch()).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            loss = F.mse_loss(net(batch()) * 1000, torch.zeros(6, 4))
            print("perplexity", torch.exp(loss).item())


@family.healthy()
def memory_written_before_it_is_read():
    def body(y):
        out = torch.empty(6, 4)
        torch.mul(y.detach(), 2, out=out)
        rows = torch.empty(6, 4)
        for i in range(6):
            rows[i] = y.detach()[i]
        return y + out + rows

    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    train(Small(body))


def of_nan(tensor):
    """The bytes of its memory, past PyTorch."""
    ctypes.memset(tensor.data_ptr(), 0xFF, tensor.nbytes)
    return tensor


@family.healthy(evidence=(TENSORS, STATISTICS))
def memory_allocated_through_its_storage():
    """As FSDP does: views of it exist before it is written."""
    kept = torch.zeros(6, 4)

    def body(y):
        kept.untyped_storage().resize_(0)
        kept.untyped_storage().resize_(96)
        of_nan(kept).view(4, 6)
        kept.copy_(y.detach())
        return y + kept

    train(Small(body))


@family.healthy(evidence=(TENSORS, STATISTICS))
def storage_that_grows():
    def body(y):
        rows = y.detach().clone()
        storage = rows.untyped_storage()
        storage.resize_(192)
        more = torch.empty(0).set_(storage, 0, (12, 4))
        ctypes.memset(more.data_ptr() + 96, 0xFF, 96)
        more.view(48)
        more[6:] = 1
        return y + more[:6] + more[6:]

    train(Small(body))


@family.healthy(evidence=(TENSORS, STATISTICS))
def results_for_memory_that_holds_nan():
    def body(y):
        x = y.detach()
        out, values, places = (torch.full((6, 4), NAN) for _ in range(3))
        total = torch.full((6,), NAN)
        torch.mul(x, 2, out=out)
        torch.addcmul(x, x, x, out=values)
        torch.clamp(x, 0, out=places)
        torch.sum(x, 1, out=total)
        return y + out + values + places + total[:, None]

    train(Small(body))


@family.healthy(evidence=(TENSORS, STATISTICS))
def memory_written_by_columns():
    def body(y):
        both = of_nan(torch.empty(6, 8))
        torch.mul(y.detach(), 2, out=both[:, :4])
        left = both[:, :4]
        both.view(48)
        both[:, 4:] = left
        return y + both[:, :4] + both[:, 4:]

    train(Small(body))


@family.healthy()
def baddbmm_with_a_mask():
    def attend(q, k, v, tokens):
        mask = torch.zeros(2, 5, 5).masked_fill((tokens == 0)[:, None], -INF)
        return torch.softmax(torch.baddbmm(mask, q, k.transpose(1, 2)), -1) @ v

    language(attend)


@family.healthy(ranks=2, evidence=(TENSORS, STATISTICS))
def data_parallel():
    import torch.distributed as dist

    dist.init_process_group("gloo")
    net = parallel(nn.Linear(4, 2))
    train(net)
    dist.destroy_process_group()
