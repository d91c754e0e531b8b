import sys
import mindspore
from mindspore import nn
from mindspore.nn import Cell
from mindspore.ops import functional as F
#
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/auto_generate')
from mindspore.ops.auto_generate.gen_ops_prim import *
from mindspore.ops.auto_generate.pyboost_inner_prim import *
from mindspore.ops.operations.manually_defined.ops_def import *
from mindspore.ops.auto_generate.gen_ops_def import zeros_op

def zeros_opt(size, dtype=None):
    zeros_op_var = zeros_op(size, dtype)
    return zeros_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
import mindspore.ops as ops
from mindspore.train.amp import amp_cast

def _lstm_cell(inputs, hidden, w_ih, w_hh, b_ih, b_hh):
    hx, cx = hidden
    compare_var = b_ih is None
    if compare_var:
        MatMul_var_1 = ops.MatMul(False, True)
        hx_var_1 = amp_cast(hx, mindspore.bfloat16)
        w_hh_var_1 = amp_cast(w_hh, mindspore.bfloat16)
        function_var_2 = MatMul_var_1(hx_var_1, w_hh_var_1)
        function_var_2 = amp_cast(function_var_2, mindspore.float32)
        MatMul_var = ops.MatMul(False, True)
        inputs_var_1 = amp_cast(inputs, mindspore.bfloat16)
        w_ih_var_1 = amp_cast(w_ih, mindspore.bfloat16)
        function_var_1 = MatMul_var(inputs_var_1, w_ih_var_1)
        function_var_1 = amp_cast(function_var_1, mindspore.float32)
        gates = function_var_1 + function_var_2
    else:
        MatMul_var_3 = ops.MatMul(False, True)
        hx_var = amp_cast(hx, mindspore.bfloat16)
        w_hh_var = amp_cast(w_hh, mindspore.bfloat16)
        function_var_4 = MatMul_var_3(hx_var, w_hh_var)
        function_var_4 = amp_cast(function_var_4, mindspore.float32)
        MatMul_var_2 = ops.MatMul(False, True)
        inputs_var = amp_cast(inputs, mindspore.bfloat16)
        w_ih_var = amp_cast(w_ih, mindspore.bfloat16)
        function_var_3 = MatMul_var_2(inputs_var, w_ih_var)
        function_var_3 = amp_cast(function_var_3, mindspore.float32)
        add_var_1 = function_var_3 + function_var_4
        add_var = add_var_1 + b_ih
        gates = add_var + b_hh
    Split_var = ops.Split(1, 4)
    gates_var = amp_cast(gates, mindspore.bfloat16)
    ingate, forgetgate, cellgate, outgate = Split_var(gates_var)
    Sigmoid_var_2 = ops.Sigmoid()
    ingate = Sigmoid_var_2(ingate)
    ingate = amp_cast(ingate, mindspore.float32)
    Sigmoid_var_1 = ops.Sigmoid()
    forgetgate = Sigmoid_var_1(forgetgate)
    forgetgate = amp_cast(forgetgate, mindspore.float32)
    Tanh_var_1 = ops.Tanh()
    cellgate = Tanh_var_1(cellgate)
    cellgate = amp_cast(cellgate, mindspore.float32)
    Sigmoid_var = ops.Sigmoid()
    outgate = Sigmoid_var(outgate)
    outgate = amp_cast(outgate, mindspore.float32)
    mult_var_1 = ingate * cellgate
    mult_var = forgetgate * cx
    cy = mult_var + mult_var_1
    Tanh_var = ops.Tanh()
    cy_var = amp_cast(cy, mindspore.bfloat16)
    function_var = Tanh_var(cy_var)
    function_var = amp_cast(function_var, mindspore.float32)
    hy = outgate * function_var
    tuple_var = (hy, cy)
    return tuple_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from mindspore.nn.cell import Cell
from rnn_cells import RNNCellBase

class RNNCellBaseOpt(RNNCellBase, Cell):

    def __init__(self):
        Cell.__init__(self)
        for key, value in RNNCellBase.__dict__.items():
            if not key.startswith('__'):
                setattr(RNNCellBaseOpt, key, value)
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
import mindspore.common.dtype as mstype
from rnn_cells import LSTMCell
from rnn_cells import _check_is_tensor
from rnn_cells import _check_is_tuple
from rnn_cells import _check_tuple_length
from rnn_cells import _check_input_dtype

class LSTMCellOpt(LSTMCell, RNNCellBaseOpt):

    @_check_lstmcell_init
    def __init__(self, obj):
        RNNCellBaseOpt.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, x, hx):
        _check_is_tensor('x', x, self.cls_name)
        _check_is_tuple('hx', hx, self.cls_name)
        _check_tuple_length('hx', hx, 2, self.cls_name)
        subscript_var_3 = hx[0]
        _check_is_tensor('hx[0]', subscript_var_3, self.cls_name)
        subscript_var_2 = hx[1]
        _check_is_tensor('hx[1]', subscript_var_2, self.cls_name)
        list_var_2 = [mstype.float32, mstype.float16]
        _check_input_dtype(x.dtype, 'x', list_var_2, self.cls_name)
        list_var_1 = [mstype.float32, mstype.float16]
        subscript_var_1 = hx[0]
        _check_input_dtype(subscript_var_1.dtype, 'hx[0]', list_var_1, self.cls_name)
        list_var = [mstype.float32, mstype.float16]
        subscript_var = hx[1]
        _check_input_dtype(subscript_var.dtype, 'hx[1]', list_var, self.cls_name)
        _lstm_cell_var = _lstm_cell(x, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return _lstm_cell_var

    def _check_construct_args(self, *inputs, **kwargs):
        if len(inputs) == 4:
            raise ValueError(f"For '{self.cls_name}', the number of input args of construct is {len(inputs)}, if you are using the implementation of `nn.LSTMCell` from old MindSpore version(<1.6), please notice that: LSTMCell has been changed from 'single LSTM layer' to 'single LSTM cell', if you still need use single LSTM layer, please use `nn.LSTM` instead.")
        return super()._check_construct_args(*inputs, **kwargs)
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from mindspore import ops
from basic import Dense

class DenseOpt_7(Dense, Cell):

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
Rnn = getattr(sys.modules['__main__'], 'Rnn')

class RnnOpt(Rnn, nn.Cell):

    def __init__(self, obj):
        nn.Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)
        self.r = LSTMCellOpt(self.r)
        self.d = DenseOpt_7(self.d)

    def construct(self, x):
        tuple_var_1 = (4, 6)
        h = zeros_opt(tuple_var_1, x.dtype)
        tuple_var = (4, 6)
        c = zeros_opt(tuple_var, x.dtype)
        range_var = range(3)
        for t in range_var:
            tuple_var_2 = (h, c)
            subscript_var = x[:, t]
            h, c = self.r(subscript_var, tuple_var_2)
        d_var = self.d(h)
        return d_var
#