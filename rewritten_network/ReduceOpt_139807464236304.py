import sys
import mindspore
from mindspore import nn
from mindspore.nn import Cell
from mindspore.ops import functional as F
#
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/operations/manually_defined')
from mindspore.ops._primitive_cache import _get_cache_prim
from ops_def import Tile

def tile_opt(input, dims):
    _get_cache_prim_var_2 = _get_cache_prim(Tile)
    tile_op = _get_cache_prim_var_2()
    tile_op_var = tile_op(input, dims)
    return tile_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_prim import *
from mindspore.ops.auto_generate.pyboost_inner_prim import *
from mindspore.ops.operations.manually_defined.ops_def import *
from mindspore.ops.auto_generate.gen_ops_def import Gather

def gather_opt(input_params, input_indices, axis, batch_dims=0):
    _get_cache_prim_var_1 = _get_cache_prim(Gather)
    gather_op = _get_cache_prim_var_1(batch_dims)
    gather_op_var = gather_op(input_params, input_indices, axis)
    return gather_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/function')
import mindspore.common.dtype as mstype
from mindspore.ops.operations.array_ops import Argmax
from mindspore.common import Tensor
from array_func import _check_attr_dtype
from array_func import reshape_
from array_func import Argmax as Argmax_1

def argmax_opt(input, dim=None, keepdim=False):
    list_var = [bool]
    _check_attr_dtype('keepdim', keepdim, list_var, 'argmax')
    not_var = not input.shape
    if not_var:
        Tensor_var = Tensor(0)
        return Tensor_var
    compare_var_2 = input.dtype == mstype.bool_
    if compare_var_2:
        input = input.astype(mstype.int32)
    is_dim_none = False
    compare_var_1 = dim is None
    if compare_var_1:
        usub_var_6 = -1
        tuple_var = (usub_var_6,)
        input = reshape_(input, tuple_var)
        dim = 0
        is_dim_none = True
    _get_cache_prim_var = _get_cache_prim(Argmax_1)
    function_var = _get_cache_prim_var(dim, mstype.int64)
    out = function_var(input)
    and_var = keepdim and (not is_dim_none)
    if and_var:
        out = expand_dims_opt(out, dim)
    return out
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import expand_dims_op

def expand_dims_opt(input_x, axis):
    expand_dims_op_var = expand_dims_op(input_x, axis)
    return expand_dims_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import erf_op

def erf_opt(input):
    erf_op_var = erf_op(input)
    return erf_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import pow_op

def pow_opt(input, exponent):
    pow_op_var = pow_op(input, exponent)
    return pow_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import sqrt_op

def sqrt_opt(x):
    sqrt_op_var = sqrt_op(x)
    return sqrt_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import abs_op

def abs_opt(input):
    abs_op_var = abs_op(input)
    return abs_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/function')
from array_func import tensor_select_

def where_opt(condition, input, other):
    tensor_select__var = tensor_select_(condition, input, other)
    return tensor_select__var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import clamp_scalar_op

def clamp_scalar(input, min=None, max=None):
    clamp_scalar_op_var = clamp_scalar_op(input, min, max)
    return clamp_scalar_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import clamp_tensor_op

def clamp_tensor(input, min=None, max=None):
    clamp_tensor_op_var = clamp_tensor_op(input, min, max)
    return clamp_tensor_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/function')
from mindspore.common.tensor import Tensor

def clamp(input, min=None, max=None):
    isinstance_var_1 = isinstance(max, Tensor)
    isinstance_var = isinstance(min, Tensor)
    or_var = isinstance_var or isinstance_var_1
    if or_var:
        clamp_tensor_var = clamp_tensor(input, min, max)
        return clamp_tensor_var
    clamp_scalar_var = clamp_scalar(input, min, max)
    return clamp_scalar_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/function')

def clip_opt(input, min=None, max=None):
    clamp_var = clamp(input, min, max)
    return clamp_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import log_op

def log_opt(input):
    log_op_var = log_op(input)
    return log_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import exp_op

def exp_opt(input):
    exp_op_var = exp_op(input)
    return exp_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_def import ones_op

def ones_opt(shape, dtype=None):
    ones_op_var = ones_op(shape, dtype)
    return ones_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/function')
from mindspore.ops.auto_generate import group_norm_op

def group_norm_opt(input, num_groups, weight=None, bias=None, eps=1e-05):
    compare_var_1 = weight is None
    if compare_var_1:
        subscript_var_1 = input.shape[1]
        list_var = [subscript_var_1]
        weight = ones_opt(list_var, dtype=input.dtype)
    compare_var = bias is None
    if compare_var:
        subscript_var_2 = input.shape[1]
        list_var_1 = [subscript_var_2]
        bias = zeros_opt(list_var_1, dtype=input.dtype)
    subscript_var = group_norm_op(input, num_groups, weight, bias, eps)[0]
    return subscript_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from mindspore import ops
from mindspore.nn.cell import Cell
from basic import Dense
from mindspore.train.amp import amp_cast

class DenseOpt_11(Dense, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, x):
        x_var = amp_cast(x, mindspore.bfloat16)
        x_shape = self.shape_op(x_var)
        x_shape = amp_cast(x_shape, mindspore.float32)
        len_var_1 = len(x_shape)
        compare_var_1 = len_var_1 != 2
        if compare_var_1:
            subscript_var = x_shape[-1]
            usub_var = -1
            tuple_var = (usub_var, subscript_var)
            x_var_4 = amp_cast(x, mindspore.bfloat16)
            tuple_var = amp_cast(tuple_var, mindspore.bfloat16)
            x = self.reshape(x_var_4, tuple_var)
            x = amp_cast(x, mindspore.float32)
        x_var_1 = amp_cast(x, mindspore.bfloat16)
        weight_var = amp_cast(self.weight, mindspore.bfloat16)
        x = self.matmul(x_var_1, weight_var)
        x = amp_cast(x, mindspore.float32)
        if self.has_bias:
            x_var_3 = amp_cast(x, mindspore.bfloat16)
            bias_var = amp_cast(self.bias, mindspore.bfloat16)
            x = self.bias_add(x_var_3, bias_var)
            x = amp_cast(x, mindspore.float32)
        if self.activation_flag:
            x = self.activation(x)
        len_var = len(x_shape)
        compare_var = len_var != 2
        if compare_var:
            subscript_var_2 = ops.shape(x)[-1]
            tuple_var_1 = (subscript_var_2,)
            subscript_var_1 = x_shape[:-1]
            out_shape = subscript_var_1 + tuple_var_1
            x_var_2 = amp_cast(x, mindspore.bfloat16)
            out_shape = amp_cast(out_shape, mindspore.bfloat16)
            x = self.reshape(x_var_2, out_shape)
            x = amp_cast(x, mindspore.float32)
        return x

    def extend_repr(self):
        s = f'input_channels={self.in_channels}, output_channels={self.out_channels}'
        if self.has_bias:
            s += f', has_bias={self.has_bias}'
        if self.activation_flag:
            s += f', activation={self.activation}'
        return s
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from mindspore.ops.primitive import constexpr, _primexpr
from mindspore import _checkparam as validator
from normalization import GroupNorm

class GroupNormOpt(GroupNorm, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)
        self._channel_check = obj.__class__._channel_check
        self._check_dtype = obj.__class__._check_dtype

    def _cal_output(self, x):
        to_var_1 = self.beta.to(x.dtype)
        to_var = self.gamma.to(x.dtype)
        group_norm_var = group_norm_opt(x, self.num_groups, to_var, to_var_1, self.eps)
        return group_norm_var

    @staticmethod
    @_primexpr
    def _channel_check(channel, num_channel, prim_name=None):

        def _check():
            msg_prefix = f"For '{prim_name}', the" if prim_name else 'The'
            if channel != num_channel:
                raise ValueError(f"{msg_prefix} channel(the second dim of the input 'x') must be equal to num_channels, but got channel: {channel}, num_channels: {num_channel}.")
        _check()

    @staticmethod
    @constexpr
    def _check_dtype(dtype, valid_dtypes, prim_name=None):
        validator.check_type_name('input', dtype, valid_dtypes, prim_name)

    def extend_repr(self):
        return 'num_groups={}, num_channels={}'.format(self.num_groups, self.num_channels)

    def construct(self, x):
        output = self._cal_output(x)
        return output
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')

class DenseOpt_10(Dense, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, x):
        x_var = amp_cast(x, mindspore.bfloat16)
        x_shape = self.shape_op(x_var)
        x_shape = amp_cast(x_shape, mindspore.float32)
        len_var_1 = len(x_shape)
        compare_var_1 = len_var_1 != 2
        if compare_var_1:
            subscript_var = x_shape[-1]
            usub_var = -1
            tuple_var = (usub_var, subscript_var)
            x_var_4 = amp_cast(x, mindspore.bfloat16)
            tuple_var = amp_cast(tuple_var, mindspore.bfloat16)
            x = self.reshape(x_var_4, tuple_var)
            x = amp_cast(x, mindspore.float32)
        x_var_1 = amp_cast(x, mindspore.bfloat16)
        weight_var = amp_cast(self.weight, mindspore.bfloat16)
        x = self.matmul(x_var_1, weight_var)
        x = amp_cast(x, mindspore.float32)
        if self.has_bias:
            x_var_3 = amp_cast(x, mindspore.bfloat16)
            bias_var = amp_cast(self.bias, mindspore.bfloat16)
            x = self.bias_add(x_var_3, bias_var)
            x = amp_cast(x, mindspore.float32)
        if self.activation_flag:
            x = self.activation(x)
        len_var = len(x_shape)
        compare_var = len_var != 2
        if compare_var:
            subscript_var_2 = ops.shape(x)[-1]
            tuple_var_1 = (subscript_var_2,)
            subscript_var_1 = x_shape[:-1]
            out_shape = subscript_var_1 + tuple_var_1
            x_var_2 = amp_cast(x, mindspore.bfloat16)
            out_shape = amp_cast(out_shape, mindspore.bfloat16)
            x = self.reshape(x_var_2, out_shape)
            x = amp_cast(x, mindspore.float32)
        return x

    def extend_repr(self):
        s = f'input_channels={self.in_channels}, output_channels={self.out_channels}'
        if self.has_bias:
            s += f', has_bias={self.has_bias}'
        if self.activation_flag:
            s += f', activation={self.activation}'
        return s
#
sys.path.insert(0, '/tmp/m/p')
from mindspore import nn, ops
Reduce = getattr(sys.modules['__main__'], 'Reduce')

class ReduceOpt(Reduce, nn.Cell):

    def __init__(self, obj):
        nn.Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)
        self.a = DenseOpt_10(self.a)
        self.g = GroupNormOpt(self.g)
        self.c = DenseOpt_11(self.c)

    def construct(self, x):
        y = self.a(x)
        y = y * self.p
        y = y - y.max(-1, keepdims=True)[0] if isinstance(y.max(-1, keepdims=True), tuple) else y - y.max(-1, keepdims=True)
        y = exp_opt(y)
        usub_var_5 = -1
        sum_var = y.sum(usub_var_5, keepdims=True)
        y = y / sum_var
        add_var_2 = y + 0.001
        y = log_opt(add_var_2)
        usub_var_4 = -3
        z = clip_opt(y, usub_var_4, 3)
        mult_var = z * z
        usub_var_3 = -1
        compare_var = z > usub_var_3
        z = where_opt(compare_var, z, mult_var)
        abs_var = abs_opt(z)
        add_var_1 = abs_var + 1
        sqrt_var = sqrt_opt(add_var_1)
        pow_var = pow_opt(z, 2)
        z = pow_var + sqrt_var
        z = erf_opt(z)
        v = ops.var(z, -1, keepdims=True) if False else ops.reduce_mean(ops.square(z), -1, True)
        usub_var_1 = -1
        usub_var_2 = -1
        expand_dims_var = expand_dims_opt(z, usub_var_2)
        g_var = self.g(expand_dims_var)
        z = g_var.squeeze(usub_var_1)
        usub_var = -1
        idx = argmax_opt(z, usub_var)
        t = gather_opt(z, idx, 1)
        mean_var = t.mean()
        add_var = z + mean_var
        z = add_var + v
        tuple_var = (1, 1)
        tile_var = tile_opt(z, tuple_var)
        c_var = self.c(tile_var)
        return c_var
#