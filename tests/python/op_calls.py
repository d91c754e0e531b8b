"""A call of PyTorch for each name in the table of kinds (src/read/operators/op_family.cpp): function and inputs."""

import torch
from torch.nn import functional as F

aten = torch.ops.aten
_random = torch.Generator().manual_seed(0)


def some(*shape):
    return torch.randn(*shape, generator=_random)


def positive(*shape):
    return torch.rand(*shape, generator=_random) + 0.25


def inside(*shape):
    """Between -0.9 and 0.9."""
    return torch.rand(*shape, generator=_random) * 1.8 - 0.9


def edges():
    """Ties, zeros, whole numbers and halves: a millionth more or less makes another order, side or number."""
    return torch.tensor([[1.0, 1.0, 0.5, -0.5, 0.0, 2.0], [-1.0, 3.0, 3.0, 1.5, 0.0, -2.0]] * 2)


class Call:
    """inputs: shapes of random tensors, or tensors. constants: values in a copy that are not in any input."""

    def __init__(self, function, *inputs, constants=(), single=False):
        self.function = function
        self.inputs = [some(*one) if isinstance(one, tuple) else one for one in inputs]
        self.constants = constants
        self.single = single  # it only accepts float32

    def __call__(self, *inputs):
        result = self.function(*inputs)
        return list(result) if isinstance(result, tuple | list) else [result]


X, IMAGE, ROWS = (4, 6), (1, 2, 4, 6), (2, 3, 4)
ROW = torch.tensor([0, 3, 3])
INDEX = torch.tensor([[0, 1, 2, 3, 2, 1]] * 4)
MASK = torch.arange(24).view(4, 6) % 3 == 0
CLASSES = torch.tensor([0, 5, 2, 2])
ATTENTION = ((1, 2, 3, 4),) * 3


def moves(function, *inputs, constants=()):
    return Call(function, *(inputs or (X,)), constants=constants)


COPY = {
    "t": moves(torch.t),
    "view": moves(lambda x: x.view(24)),
    "detach": moves(lambda x: x.detach()),
    "alias": moves(aten.alias),
    "waittensor": moves(torch.ops._c10d_functional.wait_tensor),
    "transpose": moves(lambda x: x.transpose(0, 1)),
    "permute": moves(lambda x: x.permute(1, 0)),
    "expand": moves(lambda x: x.expand(2, 4, 6)),
    "clone": moves(torch.clone),
    "liftfresh": moves(aten.lift_fresh),
    "reshape": moves(lambda x: x.reshape(2, 12)),
    "flatten": moves(torch.flatten),
    "contiguous": moves(lambda x: x.t().contiguous()),
    "unsqueeze": moves(lambda x: x.unsqueeze(0)),
    "squeeze": moves(torch.squeeze),
    "slice": moves(lambda x: x[1:3]),
    "select": moves(lambda x: x.select(0, 1)),
    "split": moves(lambda x: x.split(2)),
    "splitwithsizes": moves(lambda x: x.split([1, 3])),
    "tensorsplit": moves(lambda x: torch.tensor_split(x, 3)),
    "chunk": moves(lambda x: x.chunk(2)),
    "cat": moves(lambda x, y: torch.cat([x, y]), X, X),
    "concat": moves(lambda x, y: torch.concat([x, y]), X, X),
    "concatenate": moves(lambda x, y: torch.concatenate([x, y]), X, X),
    "stack": moves(lambda x, y: torch.stack([x, y]), X, X),
    "hstack": moves(lambda x, y: torch.hstack([x, y]), X, X),
    "vstack": moves(lambda x, y: torch.vstack([x, y]), X, X),
    "pad": moves(lambda x: F.pad(x, (1, 1), "reflect")),
    "constantpadnd": moves(lambda x: torch.constant_pad_nd(x, (1, 1), 3.0), constants=[3]),
    "repeat": moves(lambda x: x.repeat(2, 1)),
    "tile": moves(lambda x: x.tile(2)),
    "unbind": moves(torch.unbind),
    "narrow": moves(lambda x: x.narrow(0, 1, 2)),
    "gather": moves(lambda x: x.gather(0, INDEX)),
    "indexselect": moves(lambda x: x.index_select(0, ROW)),
    "embedding": moves(lambda x: F.embedding(ROW, x)),
    "index": moves(lambda x: x[ROW]),
    "copy": moves(lambda x, y: x.clone().copy_(y), X, X),
    "flip": moves(lambda x: x.flip(0)),
    "roll": moves(lambda x: x.roll(1)),
    "asstrided": moves(lambda x: x.as_strided((2, 2), (1, 2))),
    "unfold": moves(lambda x: x.unfold(0, 2, 1)),
    "movedim": moves(lambda x: x.movedim(0, 1)),
    "swapaxes": moves(lambda x: x.swapaxes(0, 1)),
    "broadcastto": moves(lambda x: torch.broadcast_to(x, (2, 4, 6))),
    "viewas": moves(lambda x: x.view_as(x)),
    "reshapealias": moves(lambda x: aten._reshape_alias(x, (24,), (1,))),
    "unsafeview": moves(lambda x: aten._unsafe_view(x, (24,))),
    "reshapeas": moves(lambda x: x.reshape_as(x)),
    "expandas": moves(lambda x: x.expand_as(x)),
    "repeatinterleave": moves(lambda x: x.repeat_interleave(2)),
    "tril": moves(torch.tril, constants=[0]),
    "triu": moves(torch.triu, constants=[0]),
    "maskedselect": moves(lambda x: x.masked_select(MASK)),
    "slicegrad": moves(lambda x: aten.slice_backward(x, (8, 6), 0, 2, 6, 1), constants=[0]),
    "selectgrad": moves(lambda x: aten.select_backward(x, (3, 4, 6), 0, 1), constants=[0]),
    "fill": moves(lambda x: x.clone().fill_(2.5), constants=[2.5]),
    "full": Call(lambda: torch.full((3,), 2.5), constants=[2.5]),
    "zeros": Call(lambda: torch.zeros(3), constants=[0]),
    "ones": Call(lambda: torch.ones(3), constants=[1]),
    "zeroslike": moves(torch.zeros_like, constants=[0]),
    "oneslike": moves(torch.ones_like, constants=[1]),
    "newzeros": moves(lambda x: x.new_zeros(3), constants=[0]),
    "newfull": moves(lambda x: x.new_full((3,), 2.5), constants=[2.5]),
    "arange": Call(lambda: torch.arange(4.0), constants=range(4)),
    "scalartensor": Call(lambda: torch.scalar_tensor(2.5), constants=[2.5]),
    "real": moves(torch.real, torch.complex(some(*X), some(*X))),
    "imag": moves(torch.imag, torch.complex(some(*X), some(*X))),
    "viewasreal": moves(torch.view_as_real, torch.complex(some(*X), some(*X))),
    "viewascomplex": moves(lambda x: torch.view_as_complex(x.view(4, 3, 2))),
    "unflatten": moves(lambda x: x.unflatten(1, (2, 3))),
    "ravel": moves(torch.ravel),
    "moveaxis": moves(lambda x: x.moveaxis(0, 1)),
    "swapdims": moves(lambda x: x.swapdims(0, 1)),
    "adjoint": moves(torch.adjoint),
    "mt": moves(lambda x: x.mT),
    "mh": moves(lambda x: x.mH),
    "matrixh": moves(lambda x: x.H),
    "numpyt": moves(lambda x: x.T),
    "diag": moves(torch.diag),
    "diagonal": moves(torch.diagonal),
    "hsplit": moves(lambda x: x.hsplit(2)),
    "vsplit": moves(lambda x: x.vsplit(2)),
    "dsplit": moves(lambda x: x.dsplit(2), ROWS),
    "columnstack": moves(lambda x, y: torch.column_stack([x, y]), X, X),
    "rowstack": moves(lambda x, y: torch.row_stack([x, y]), X, X),
    "dstack": moves(lambda x, y: torch.dstack([x, y]), X, X),
    "im2col": moves(lambda x: aten.im2col(x, [2, 2], [1, 1], [0, 0], [1, 1]), IMAGE),
    "pixelshuffle": moves(lambda x: F.pixel_shuffle(x, 2), (1, 4, 2, 3)),
    "pixelunshuffle": moves(lambda x: F.pixel_unshuffle(x, 2), IMAGE),
    "channelshuffle": moves(lambda x: F.channel_shuffle(x, 2), (1, 4, 2, 3)),
    "rot90": moves(torch.rot90),
    "fliplr": moves(torch.fliplr),
    "flipud": moves(torch.flipud),
    "take": moves(lambda x: x.take(INDEX)),
    "takealongdim": moves(lambda x: x.take_along_dim(INDEX, 1)),
    "unsafesplit": moves(lambda x: torch.unsafe_split(x, 2)),
    "unsafechunk": moves(lambda x: torch.unsafe_chunk(x, 2)),
    "viewcopy": moves(lambda x: torch.view_copy(x, (24,))),
    "expandcopy": moves(lambda x: torch.expand_copy(x, (2, 4, 6))),
}

EXACT = {
    "relu": Call(torch.relu, X, constants=[0]),
    "relu6": Call(F.relu6, X, constants=[0, 6]),
    "neg": Call(torch.neg, X),
    "abs": Call(torch.abs, X),
    "foreachneg": Call(lambda x: torch._foreach_neg([x]), X),
    "conj": Call(lambda x: torch.conj(x).resolve_conj(), torch.complex(some(*X), some(*X))),
    "hardtanh": Call(F.hardtanh, X, constants=[-1, 1]),
    "clamp": Call(lambda x: x.clamp(-1, 1), X, constants=[-1, 1]),
    "clampmin": Call(lambda x: x.clamp_min(0), X, constants=[0]),
    "clampmax": Call(lambda x: x.clamp_max(0), X, constants=[0]),
    "clip": Call(lambda x: x.clip(-1, 1), X, constants=[-1, 1]),
    "maxpool1d": Call(lambda x: F.max_pool1d(x, 2), ROWS),
    "maxpool2d": Call(lambda x: F.max_pool2d(x, 2), IMAGE),
    "maxpool3d": Call(lambda x: F.max_pool3d(x, (1, 2, 2)), IMAGE),
    "maxpool2dwithindices": Call(lambda x: aten.max_pool2d_with_indices(x, [2, 2]), IMAGE),
    "maximum": Call(torch.maximum, X, X),
    "minimum": Call(torch.minimum, X, X),
    "max": Call(lambda x: x.max(1), X),
    "min": Call(lambda x: x.min(1), X),
    "amax": Call(torch.amax, X),
    "amin": Call(torch.amin, X),
    "where": Call(lambda x, y: torch.where(MASK, x, y), X, X),
    "maskedfill": Call(lambda x: x.masked_fill(MASK, -9), X, constants=[-9]),
}

CAST = {
    "to": Call(lambda x: x.to(torch.float16), X),
    "tocopy": Call(lambda x: aten._to_copy(x, dtype=torch.bfloat16), X),
    "typeas": Call(lambda x: x.type_as(torch.ones(1, dtype=torch.float16)), X),
    "float": Call(lambda x: x.float(), X),
    "half": Call(lambda x: x.half(), X),
    "bfloat16": Call(lambda x: x.bfloat16(), X),
    "double": Call(lambda x: x.double(), X),
}

TRANSCENDENTAL = {
    "exp": Call(torch.exp, X),
    "exp2": Call(torch.exp2, X),
    "expm1": Call(torch.expm1, X),
    "log": Call(torch.log, positive(*X)),
    "log2": Call(torch.log2, positive(*X)),
    "log10": Call(torch.log10, positive(*X)),
    "log1p": Call(torch.log1p, inside(*X)),
    "sin": Call(torch.sin, X),
    "cos": Call(torch.cos, X),
    "tan": Call(torch.tan, inside(*X)),
    "asin": Call(torch.asin, inside(*X)),
    "acos": Call(torch.acos, inside(*X)),
    "atan": Call(torch.atan, X),
    "atan2": Call(torch.atan2, X, X),
    "sinh": Call(torch.sinh, X),
    "cosh": Call(torch.cosh, X),
    "tanh": Call(torch.tanh, X),
    "sigmoid": Call(torch.sigmoid, X),
    "silu": Call(F.silu, X),
    "gelu": Call(F.gelu, X),
    "erf": Call(torch.erf, X),
    "erfc": Call(torch.erfc, X),
    "erfinv": Call(torch.erfinv, inside(*X)),
    "softplus": Call(F.softplus, X),
    "mish": Call(F.mish, X),
    "pow": Call(lambda x: x**2.5, positive(*X)),
    "elu": Call(F.elu, X),
    "selu": Call(F.selu, X),
    "celu": Call(F.celu, X),
    "hardswish": Call(F.hardswish, X),
    "logsigmoid": Call(F.logsigmoid, X),
    "tanhgrad": Call(aten.tanh_backward, X, inside(*X)),
    "sigmoidgrad": Call(aten.sigmoid_backward, X, inside(*X)),
    "silugrad": Call(aten.silu_backward, X, X),
    "gelugrad": Call(aten.gelu_backward, X, X),
    "logit": Call(torch.logit, torch.rand(*X, generator=_random) * 0.8 + 0.1),
    "lgamma": Call(torch.lgamma, positive(*X)),
    "digamma": Call(torch.digamma, positive(*X)),
}

ELEMENTWISE = {
    "add": Call(lambda x, y: torch.add(x, y, alpha=3), X, X),
    "sub": Call(torch.sub, X, X),
    "mul": Call(torch.mul, X, X),
    "div": Call(torch.div, X, positive(*X)),
    "addcmul": Call(torch.addcmul, X, X, X),
    "addcdiv": Call(torch.addcdiv, X, X, positive(*X)),
    "lerp": Call(torch.lerp, X, X, X),
    "reciprocal": Call(torch.reciprocal, positive(*X)),
    "rsqrt": Call(torch.rsqrt, positive(*X)),
    "sqrt": Call(torch.sqrt, positive(*X)),
    "square": Call(torch.square, X),
    "leakyrelu": Call(F.leaky_relu, X),
    "prelu": Call(F.prelu, X, torch.tensor([0.3])),
    "rsub": Call(torch.rsub, X, X),
    "truedivide": Call(torch.true_divide, X, positive(*X)),
    "divide": Call(torch.divide, X, positive(*X)),
    "multiply": Call(torch.multiply, X, X),
    "subtract": Call(torch.subtract, X, X),
    "hardsigmoid": Call(F.hardsigmoid, X),
    "outer": Call(torch.outer, (4,), (6,)),
    "addr": Call(torch.addr, X, (4,), (6,)),
    "foreachadd": Call(lambda x, y: torch._foreach_add([x], [y], alpha=3), X, X),
    "foreachsub": Call(lambda x, y: torch._foreach_sub([x], [y]), X, X),
    "foreachmul": Call(lambda x, y: torch._foreach_mul([x], [y]), X, X),
    "foreachdiv": Call(lambda x, y: torch._foreach_div([x], [y]), X, positive(*X)),
    "foreachsqrt": Call(lambda x: torch._foreach_sqrt([x]), positive(*X)),
    "foreachlerp": Call(lambda x, y: torch._foreach_lerp([x], [y], 0.3), X, X),
    "foreachaddcmul": Call(lambda x, y, z: torch._foreach_addcmul([x], [y], [z]), X, X, X),
    "foreachaddcdiv": Call(lambda x, y, z: torch._foreach_addcdiv([x], [y], [z]), X, X, positive(*X)),
}


def layers(names, *, gates=1):
    """A call of aten's function for layers of 6 to 5, of one step each."""

    def call(x, h, c, *weights):
        state = [h, c] if names == "lstm" else h
        return getattr(torch, names)(x, state, list(weights), True, 1, 0.0, False, False, False)

    return Call(call, (3, 2, 6), (1, 2, 5), (1, 2, 5), (5 * gates, 6), (5 * gates, 5), (5 * gates,), (5 * gates,))


def flash_gradient(g, q, k, v):
    out, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, out, sums, 0.0, False)


def heads(x, inner, bias, outer, end):
    return aten._native_multi_head_attention(x, x, x, 6, 2, inner, bias, outer, end, need_weights=False)[0]


def encoder_layer(x, *weights):
    inner, bias, outer, end, one, zero, *feed_forward = weights
    norms = [one, zero, one, zero]
    return torch._transformer_encoder_layer_fwd(
        x, 6, 2, inner, bias, outer, end, False, False, 1e-5, *norms, *feed_forward
    )


HEADS = ((2, 3, 6), (18, 6), (18,), (6, 6), (6,))
CONTRACTION = {
    "linear": Call(F.linear, X, (5, 6), (5,)),
    "addmm": Call(torch.addmm, (5,), X, (6, 5)),
    "mm": Call(torch.mm, X, (6, 5)),
    "matmul": Call(torch.matmul, X, (6, 5)),
    "bmm": Call(torch.bmm, ROWS, (2, 4, 5)),
    "baddbmm": Call(torch.baddbmm, (2, 3, 5), ROWS, (2, 4, 5)),
    "mv": Call(torch.mv, X, (6,)),
    "addmv": Call(torch.addmv, (4,), X, (6,)),
    "dot": Call(torch.dot, (24,), (24,)),
    "einsum": Call(lambda x, y: torch.einsum("ij,jk->ik", x, y), X, (6, 5)),
    "tensordot": Call(lambda x, y: torch.tensordot(x, y, 1), X, (6, 5)),
    "inner": Call(torch.inner, X, (5, 6)),
    "vdot": Call(torch.vdot, (24,), (24,)),
    "addbmm": Call(torch.addbmm, (3, 5), ROWS, (2, 4, 5)),
    "linalgmultidot": Call(lambda x, y, z: torch.linalg.multi_dot([x, y, z]), X, (6, 5), (5, 3)),
    "grucell": Call(torch.gru_cell, X, (4, 5), (15, 6), (15, 5)),
    "lstmcell": Call(lambda x, h, c, w, u: torch.lstm_cell(x, [h, c], w, u), X, (4, 5), (4, 5), (20, 6), (20, 5)),
    "rnntanhcell": Call(torch.rnn_tanh_cell, X, (4, 5), (5, 6), (5, 5)),
    "rnnrelucell": Call(torch.rnn_relu_cell, X, (4, 5), (5, 6), (5, 5)),
    "bilinear": Call(F.bilinear, X, (4, 5), (3, 6, 5)),
    "addmmactivation": Call(aten._addmm_activation, (5,), X, (6, 5)),
    "conv1d": Call(F.conv1d, ROWS, (2, 3, 3)),
    "conv2d": Call(F.conv2d, IMAGE, (3, 2, 3, 3)),
    "conv3d": Call(F.conv3d, (1, 2, 3, 4, 4), (3, 2, 2, 2, 2)),
    "convolution": Call(
        lambda x, w: torch.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1), IMAGE, (3, 2, 3, 3)
    ),
    "convtranspose1d": Call(F.conv_transpose1d, ROWS, (3, 2, 3)),
    "convtranspose2d": Call(F.conv_transpose2d, IMAGE, (2, 3, 3, 3)),
    "convtranspose3d": Call(F.conv_transpose3d, (1, 2, 3, 4, 4), (2, 3, 2, 2, 2)),
    "convolutiongrad": Call(
        lambda g, x, w: aten.convolution_backward(
            g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
        )[:2],
        (1, 3, 2, 4),
        IMAGE,
        (3, 2, 3, 3),
    ),
    "conv2dbackpropinput": Call(lambda g, w: torch.nn.grad.conv2d_input(IMAGE, w, g), (1, 3, 2, 4), (3, 2, 3, 3)),
    "conv2dbackpropfilter": Call(lambda x, g: torch.nn.grad.conv2d_weight(x, (3, 2, 3, 3), g), IMAGE, (1, 3, 2, 4)),
    "conv3dbackpropinput": Call(
        lambda g, w: torch.nn.grad.conv3d_input((1, 2, 3, 4, 4), w, g), (1, 3, 2, 3, 3), (3, 2, 2, 2, 2)
    ),
    "conv3dbackpropfilter": Call(
        lambda x, g: torch.nn.grad.conv3d_weight(x, (3, 2, 2, 2, 2), g), (1, 2, 3, 4, 4), (1, 3, 2, 3, 3)
    ),
    "depthwiseconv2d": Call(lambda x, w: F.conv2d(x, w, groups=2), IMAGE, (2, 1, 3, 3)),
    "scaleddotproductattention": Call(F.scaled_dot_product_attention, *ATTENTION),
    "scaleddotproductattentionmath": Call(lambda *qkv: aten._scaled_dot_product_attention_math(*qkv)[0], *ATTENTION),
    "scaleddotproductflashattentionforcpu": Call(
        lambda *qkv: aten._scaled_dot_product_flash_attention_for_cpu(*qkv)[0], *ATTENTION
    ),
    "scaleddotproductflashattentionforcpugrad": Call(flash_gradient, (1, 2, 3, 4), *ATTENTION),
    "multiheadattention": Call(heads, *HEADS),
    "transformerencoderlayerfwd": Call(encoder_layer, *HEADS, (6,), (6,), (5, 6), (5,), (6, 5), (6,)),
    "lstm": layers("lstm", gates=4),
    "gru": layers("gru", gates=3),
    "rnntanh": layers("rnn_tanh"),
    "rnnrelu": layers("rnn_relu"),
    "lineargrad": Call(torch.mm, X, (6, 5)),
}

REDUCTION = {
    "sum": Call(torch.sum, X),
    "mean": Call(lambda x: x.mean(1), X),
    "prod": Call(lambda x: x.prod(1), X),
    "std": Call(lambda x: x.std(1), X),
    "var": Call(lambda x: x.var(1), X),
    "stdmean": Call(lambda x: torch.std_mean(x, 1), X),
    "varmean": Call(lambda x: torch.var_mean(x, 1), X),
    "norm": Call(torch.norm, X),
    "linalgvectornorm": Call(torch.linalg.vector_norm, X),
    "foreachnorm": Call(lambda x: torch._foreach_norm([x]), X),
    "cumsum": Call(lambda x: x.cumsum(1), X),
    "cumprod": Call(lambda x: x.cumprod(1), X),
    "logsumexp": Call(lambda x: x.logsumexp(1), X),
    "nansum": Call(lambda x: x.nansum(1), X),
    "nanmean": Call(lambda x: x.nanmean(1), X),
    "logcumsumexp": Call(lambda x: x.logcumsumexp(1), X),
    "diff": Call(torch.diff, X),
    "cdist": Call(torch.cdist, X, (5, 6)),
    "embeddingbag": Call(lambda x: F.embedding_bag(ROW.view(1, 3), x, mode="sum"), X),
    "trace": Call(torch.trace, X),
    "avgpool1d": Call(lambda x: F.avg_pool1d(x, 2), ROWS),
    "avgpool2d": Call(lambda x: F.avg_pool2d(x, 2), IMAGE),
    "avgpool3d": Call(lambda x: F.avg_pool3d(x, (1, 2, 2)), IMAGE),
    "adaptiveavgpool1d": Call(lambda x: F.adaptive_avg_pool1d(x, 2), ROWS),
    "adaptiveavgpool2d": Call(lambda x: F.adaptive_avg_pool2d(x, 2), IMAGE),
    "mseloss": Call(F.mse_loss, X, X),
    "l1loss": Call(F.l1_loss, X, X),
    "smoothl1loss": Call(F.smooth_l1_loss, X, X),
    "huberloss": Call(F.huber_loss, X, X),
    "kldiv": Call(lambda x, y: F.kl_div(x, y, reduction="batchmean"), X, positive(*X)),
    "nllloss": Call(lambda x: F.nll_loss(x, CLASSES), X),
    "nlllossnd": Call(lambda x: aten.nll_loss_nd(x, CLASSES), X),
    "nlllossforward": Call(lambda x: aten.nll_loss_forward(x, CLASSES, None, 1, -100)[0], X),
    "crossentropyloss": Call(lambda x: aten.cross_entropy_loss(x, CLASSES), X),
    "binarycrossentropy": Call(F.binary_cross_entropy, torch.rand(*X, generator=_random) / 2 + 0.1, positive(*X) / 2),
    "binarycrossentropywithlogits": Call(F.binary_cross_entropy_with_logits, X, positive(*X) / 2),
    "ctcloss": Call(lambda x: F.ctc_loss(x, torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])), (5, 1, 4)),
    "embeddingdensegrad": Call(lambda g: aten.embedding_dense_backward(g, ROW, 4, -1, False), (3, 6)),
    "scatteradd": Call(lambda x, y: x.scatter_add(0, INDEX[:, :6] % 2, y), X, X),
    "indexadd": Call(lambda x, y: x.index_add(0, ROW, y), X, (3, 6)),
    "addn": Call(lambda *x: sum(x), X, X, X),
    "squaresumall": Call(lambda x, y: (x.square().sum(), y.square().sum()), X, X),
    "bntrainingreduce": Call(lambda x: (x.sum((0, 2, 3)), x.square().sum((0, 2, 3))), IMAGE),
    "softmaxcrossentropywithlogits": Call(lambda x, y: -(y * x.log_softmax(1)).sum(1), X, positive(*X)),
}


def batch_norm(function):
    return Call(lambda x, w, b: function(x, w, b, None, None, True, 0.1, 1e-5), (3, 2, 4), (2,), (2,))


NORMALIZATION = {
    "batchnorm": batch_norm(torch.native_batch_norm),
    "batchnormimplindex": batch_norm(lambda *a: torch._batch_norm_impl_index(*a, False)[:3]),
    "batchnormlegit": Call(
        lambda x, w, b: aten._native_batch_norm_legit(x, w, b, True, 0.1, 1e-5), (3, 2, 4), (2,), (2,)
    ),
    "layernorm": Call(lambda x, w, b: torch.native_layer_norm(x, (6,), w, b, 1e-5), X, (6,), (6,)),
    "groupnorm": Call(lambda x: F.group_norm(x, 2), (2, 4, 6)),
    "instancenorm": Call(F.instance_norm, (2, 4, 6)),
    "rmsnorm": Call(lambda x, w: F.rms_norm(x, (6,), w), X, (6,)),
    "fusedrmsnorm": Call(lambda x, w: aten._fused_rms_norm(x, (6,), w, 1e-5), X, (6,)),
    "softmax": Call(lambda x: x.softmax(1), X),
    "logsoftmax": Call(lambda x: x.log_softmax(1), X),
    "softmaxgraddata": Call(lambda g, x: aten._softmax_backward_data(g, x.softmax(1), 1, x.dtype), X, X),
    "logsoftmaxgraddata": Call(lambda g, x: aten._log_softmax_backward_data(g, x.log_softmax(1), 1, x.dtype), X, X),
    "safesoftmax": Call(lambda x: aten._safe_softmax(x, 1), X),
    "localresponsenorm": Call(lambda x: F.local_response_norm(x, 2), IMAGE),
    "normalize": Call(F.normalize, X),
}


def steps(function, *inputs, single=False):
    return Call(function, edges(), *inputs, single=single)


SELECTION = {
    "eq": steps(torch.eq, edges()),
    "ne": steps(torch.ne, edges()),
    "lt": steps(torch.lt, edges()),
    "le": steps(torch.le, edges()),
    "gt": steps(torch.gt, edges()),
    "ge": steps(torch.ge, edges()),
    "greater": steps(torch.greater, edges()),
    "greaterequal": steps(torch.greater_equal, edges()),
    "less": steps(torch.less, edges()),
    "lessequal": steps(torch.less_equal, edges()),
    "notequal": steps(torch.not_equal, edges()),
    "equal": steps(lambda x, y: torch.tensor(torch.equal(x, y)), edges()),
    "argmax": steps(lambda x: x.argmax(1)),
    "argmin": steps(lambda x: x.argmin(1)),
    "topk": steps(lambda x: x.topk(2)),
    "sort": steps(torch.sort),
    "argsort": steps(torch.argsort),
    "round": steps(torch.round),
    "floor": steps(torch.floor),
    "ceil": steps(torch.ceil),
    "trunc": steps(torch.trunc),
    "sign": steps(torch.sign),
    "sgn": steps(torch.sgn),
    "signbit": steps(torch.signbit),
    "floordivide": steps(lambda x: x // 0.5),
    "remainder": steps(lambda x: x % 0.5),
    "fmod": steps(lambda x: x.fmod(0.5)),
    "thresholdgrad": steps(lambda x, g: aten.threshold_backward(g, x, 0), X),
    "hardtanhgrad": steps(lambda x, g: aten.hardtanh_backward(g, x, -1, 1), X),
    "leakyrelugrad": steps(lambda x, g: aten.leaky_relu_backward(g, x, 0.01, False), X),
    "elugrad": steps(lambda x, g: aten.elu_backward(g, 2, 1, 1, False, x), X),
    "maxpool2dwithindicesgrad": steps(
        lambda x: aten.max_pool2d_with_indices_backward(
            torch.ones(1, 4, 3, dtype=x.dtype),
            x[None],
            [1, 2],
            [1, 2],
            [0, 0],
            [1, 1],
            False,
            aten.max_pool2d_with_indices(x[None], [1, 2])[1],
        )
    ),
    "nonzero": steps(lambda x: x.clamp_min(0).nonzero()),
    "onehot": steps(lambda x: F.one_hot(x.floor().long() + 3, 8)),
    "unique": steps(torch.unique),
    "unique2": steps(aten._unique2),
    "uniquedim": steps(lambda x: aten.unique_dim(x, 0)),
    "uniqueconsecutive": steps(torch.unique_consecutive),
    "argwhere": steps(lambda x: x.clamp_min(0).argwhere()),
    "bucketize": steps(lambda x: torch.bucketize(x, torch.tensor([0.0, 1.0], dtype=x.dtype))),
    "searchsorted": steps(lambda x: torch.searchsorted(torch.tensor([0.0, 1.0], dtype=x.dtype), x)),
    "isnan": steps(torch.isnan),
    "isinf": steps(torch.isinf),
    "isfinite": steps(torch.isfinite),
    "logicalnot": steps(torch.logical_not),
    "logicaland": steps(lambda x: torch.logical_and(x, MASK)),
    "logicalor": steps(lambda x: torch.logical_or(x, MASK)),
    "mode": steps(lambda x: x.mode(1)),
    "median": steps(lambda x: x[:, [0, 1, 5]].median(1)),
    "kthvalue": steps(lambda x: x.kthvalue(4, 1)),
    "histc": steps(lambda x: x.histc(4, -2, 2)),
    "bincount": steps(lambda x: torch.bincount((x + 3).floor().long().flatten(), minlength=8)),
    "quantizepertensor": steps(lambda x: torch.quantize_per_tensor(x, 1.0, 0, torch.qint8).int_repr(), single=True),
    "dequantize": steps(lambda x: torch.quantize_per_tensor(x, 1.0, 0, torch.qint8).dequantize(), single=True),
    "fakequantize": steps(lambda x: torch.fake_quantize_per_tensor_affine(x, 1.0, 0, -128, 127), single=True),
    "absgrad": steps(lambda x, g: g * x.sign(), X),
}

RANDOM = {
    "dropout": Call(lambda x: F.dropout(x, 0.5), X),
    "alphadropout": Call(lambda x: F.alpha_dropout(x, 0.5, True), X),
    "featuredropout": Call(lambda x: torch.feature_dropout(x, 0.5, True), (8, 8, 2)),
    "rand": Call(lambda: torch.rand(9)),
    "randn": Call(lambda: torch.randn(9)),
    "randint": Call(lambda: torch.randint(99, (9,))),
    "randperm": Call(lambda: torch.randperm(99)),
    "randlike": Call(torch.rand_like, X),
    "randnlike": Call(torch.randn_like, X),
    "randintlike": Call(lambda x: torch.randint_like(x, 99), X),
    "bernoulli": Call(lambda x: torch.bernoulli(x.sigmoid()), X),
    "normal": Call(lambda x: x.clone().normal_(), X),
    "uniform": Call(lambda x: x.clone().uniform_(), X),
    "exponential": Call(lambda x: x.clone().exponential_(), X),
    "geometric": Call(lambda x: x.clone().geometric_(0.1), X),
    "cauchy": Call(lambda x: x.clone().cauchy_(), X),
    "rrelu": Call(lambda x: F.rrelu(x, training=True), X),
    "poisson": Call(lambda x: torch.poisson(x * 50), positive(*X)),
    "multinomial": Call(lambda x: torch.multinomial(x, 20, True), positive(*X)),
}

CALLS = {
    "copy": COPY,
    "exact": EXACT,
    "cast": CAST,
    "transcendental": TRANSCENDENTAL,
    "elementwise": ELEMENTWISE,
    "contraction": CONTRACTION,
    "reduction": REDUCTION,
    "normalization": NORMALIZATION,
    "selection": SELECTION,
    "random": RANDOM,
}
