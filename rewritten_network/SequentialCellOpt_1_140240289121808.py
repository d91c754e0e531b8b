import sys
import mindspore
from mindspore import nn
from mindspore.nn import Cell
from mindspore.ops import functional as F
#
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from mindspore.nn.cell import Cell
from conv import _Conv

class _ConvOpt(_Conv, Cell):

    def __init__(self):
        Cell.__init__(self)
        for key, value in _Conv.__dict__.items():
            if not key.startswith('__'):
                setattr(_ConvOpt, key, value)
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from pooling import _PoolNd

class _PoolNdOpt(_PoolNd, Cell):

    def __init__(self):
        Cell.__init__(self)
        for key, value in _PoolNd.__dict__.items():
            if not key.startswith('__'):
                setattr(_PoolNdOpt, key, value)
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')

def _deconv_output_length(is_valid, is_same, is_pad, input_length, filter_size, stride_size, dilation_size, padding):
    length = 0
    sub_var_1 = dilation_size - 1
    sub_var = filter_size - 1
    mult_var = sub_var * sub_var_1
    filter_size = filter_size + mult_var
    if is_valid:
        sub_var_2 = filter_size - stride_size
        compare_var = sub_var_2 > 0
        if compare_var:
            mult_var_1 = input_length * stride_size
            add_var = mult_var_1 + filter_size
            length = add_var - stride_size
        else:
            length = input_length * stride_size
    elif is_same:
        length = input_length * stride_size
    elif is_pad:
        mult_var_2 = input_length * stride_size
        sub_var_3 = mult_var_2 - padding
        add_var_2 = sub_var_3 + filter_size
        length = add_var_2 - stride_size
    return length
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/ops/operations/manually_defined')
from mindspore.ops._primitive_cache import _get_cache_prim
from ops_def import Rank

def rank_opt_1(input_x):
    _get_cache_prim_var = _get_cache_prim(Rank)
    rank_op = _get_cache_prim_var()
    rank_op_var = rank_op(input_x)
    return rank_op_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from activation import Softmax

class SoftmaxOpt(Softmax, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, input):
        softmax_var = self.softmax(input)
        return softmax_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from mindspore import ops
from basic import Dense
from mindspore.train.amp import amp_cast

class DenseOpt_2(Dense, Cell):

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
from basic import Flatten

class FlattenOpt_1(Flatten, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def check_axis_valid(self, axis, ndim):
        """Check if axis is within valid range for given ndim."""
        if axis < -ndim or axis >= ndim:
            raise ValueError("'start_dim' or 'end_dim' out of range.")

    def construct(self, x):
        x_rank = rank_opt_1(x)
        ndim = x_rank if x_rank != 0 else 1
        self.check_axis_valid(self.start_dim, ndim)
        self.check_axis_valid(self.end_dim, ndim)
        flatten_var = ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)
        return flatten_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from activation import ELU

class ELUOpt(ELU, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, x):
        elu_var = self.elu(x)
        return elu_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from conv import Conv2dTranspose

class Conv2dTransposeOpt(Conv2dTranspose, _ConvOpt):

    def __init__(self, obj):
        _ConvOpt.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def shard(self, strategy):
        self.conv2d_transpose.shard(strategy)
        return self

    def construct(self, x):
        x_var = amp_cast(x, mindspore.bfloat16)
        n, _, h, w = self.shape(x_var)
        w = amp_cast(w, mindspore.float32)
        h = amp_cast(h, mindspore.float32)
        _ = amp_cast(_, mindspore.float32)
        n = amp_cast(n, mindspore.float32)
        add_var_1 = self.padding_top + self.padding_bottom
        subscript_var_9 = self.dilation[0]
        subscript_var_8 = self.stride[0]
        subscript_var_7 = self.kernel_size[0]
        h_out = _deconv_output_length(self.is_valid, self.is_same, self.is_pad, h, subscript_var_7, subscript_var_8, subscript_var_9, add_var_1)
        add_var = self.padding_left + self.padding_right
        subscript_var_6 = self.dilation[1]
        subscript_var_5 = self.stride[1]
        subscript_var_4 = self.kernel_size[1]
        w_out = _deconv_output_length(self.is_valid, self.is_same, self.is_pad, w, subscript_var_4, subscript_var_5, subscript_var_6, add_var)
        tuple_var_5 = (n, self.out_channels, h_out, w_out)
        x_var_1 = amp_cast(x, mindspore.bfloat16)
        weight_var = amp_cast(self.weight, mindspore.bfloat16)
        tuple_var_5 = amp_cast(tuple_var_5, mindspore.bfloat16)
        conv2d_trans_ret = self.conv2d_transpose(x_var_1, weight_var, tuple_var_5)
        conv2d_trans_ret = amp_cast(conv2d_trans_ret, mindspore.float32)
        if self.has_bias:
            conv2d_trans_ret_var_1 = amp_cast(conv2d_trans_ret, mindspore.bfloat16)
            bias_var = amp_cast(self.bias, mindspore.bfloat16)
            conv2d_trans_ret = self.bias_add(conv2d_trans_ret_var_1, bias_var)
            conv2d_trans_ret = amp_cast(conv2d_trans_ret, mindspore.float32)
        isinstance_var = isinstance(self.output_padding, tuple)
        if isinstance_var:
            subscript_var_4_6 = self.stride[0]
            subscript_var_4_5 = self.dilation[0]
            max_var_1 = max(subscript_var_4_5, subscript_var_4_6)
            subscript_var_4_4 = self.output_padding[0]
            compare_var_4 = subscript_var_4_4 >= max_var_1
            subscript_var_4_3 = self.output_padding[0]
            compare_var_3 = subscript_var_4_3 < 0
            or_var_1 = compare_var_3 or compare_var_4
            if or_var_1:
                raise ValueError('output_padding[0] must be in range of [0, max(stride_h, dilation_h)).')
            subscript_var_4_2 = self.stride[1]
            subscript_var_4_1 = self.dilation[1]
            max_var = max(subscript_var_4_1, subscript_var_4_2)
            subscript_var_3 = self.output_padding[1]
            compare_var_2 = subscript_var_3 >= max_var
            subscript_var_2 = self.output_padding[1]
            compare_var_1 = subscript_var_2 < 0
            or_var = compare_var_1 or compare_var_2
            if or_var:
                raise ValueError('output_padding[1] must be in range of [0, max(stride_w, dilation_w)).')
            not_var = not self.is_pad
            and_var = not_var and (self.output_padding[0] > 0 or self.output_padding[1] > 0)
            if and_var:
                raise ValueError("when output_padding is not zero, pad_mode must be 'pad'")
            subscript_var_1 = self.output_padding[1]
            tuple_var_4 = (0, subscript_var_1)
            subscript_var = self.output_padding[0]
            tuple_var_3 = (0, subscript_var)
            tuple_var_2 = (0, 0)
            tuple_var_1 = (0, 0)
            tuple_var = (tuple_var_1, tuple_var_2, tuple_var_3, tuple_var_4)
            pad = ops.Pad(paddings=tuple_var)
            conv2d_trans_ret_var = amp_cast(conv2d_trans_ret, mindspore.bfloat16)
            pad_var = pad(conv2d_trans_ret_var)
            pad_var = amp_cast(pad_var, mindspore.float32)
            return pad_var
        compare_var_4 = self.output_padding == 0
        if compare_var_4:
            return conv2d_trans_ret
        subscript_var_3 = self.stride[0]
        subscript_var_2 = self.dilation[0]
        max_var_1 = max(subscript_var_2, subscript_var_3)
        compare_var_3 = self.output_padding >= max_var_1
        compare_var_2 = self.output_padding < 0
        or_var_1 = compare_var_2 or compare_var_3
        if or_var_1:
            raise ValueError('output_padding must be in range of [0, max(stride_h, dilation_h)).')
        subscript_var_1 = self.stride[1]
        subscript_var = self.dilation[1]
        max_var = max(subscript_var, subscript_var_1)
        compare_var_1 = self.output_padding >= max_var
        compare_var = self.output_padding < 0
        or_var = compare_var or compare_var_1
        if or_var:
            raise ValueError('output_padding must be in range of [0, max(stride_w, dilation_w)).')
        not_var = not self.is_pad
        and_var = not_var and self.output_padding > 0
        if and_var:
            raise ValueError("when output_padding is not zero, pad_mode must be 'pad'")
        tuple_var_4 = (0, self.output_padding)
        tuple_var_3 = (0, self.output_padding)
        tuple_var_2 = (0, 0)
        tuple_var_1 = (0, 0)
        tuple_var = (tuple_var_1, tuple_var_2, tuple_var_3, tuple_var_4)
        pad = ops.Pad(paddings=tuple_var)
        conv2d_trans_ret = amp_cast(conv2d_trans_ret, mindspore.bfloat16)
        pad_var = pad(conv2d_trans_ret)
        pad_var = amp_cast(pad_var, mindspore.float32)
        return pad_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from pooling import AvgPool2d

class AvgPool2dOpt(AvgPool2d, _PoolNdOpt):

    def __init__(self, obj):
        _PoolNdOpt.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, x):
        expand_batch = False
        compare_var = x.ndim == 3
        if compare_var:
            x = x.unsqueeze(0)
            expand_batch = True
        if self.is_expand:
            x = x.unsqueeze(2)
            out = self.avg_pool(x)
            res = out.squeeze(2)
        else:
            res = self.avg_pool(x)
        if expand_batch:
            res = res.squeeze(0)
        return res
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from activation import Sigmoid

class SigmoidOpt(Sigmoid, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, x):
        sigmoid_var = self.sigmoid(x)
        return sigmoid_var
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from conv import Conv2d

class Conv2dOpt_1(Conv2d, _ConvOpt):

    def __init__(self, obj):
        _ConvOpt.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)

    def construct(self, x):
        x = amp_cast(x, mindspore.bfloat16)
        weight_var = amp_cast(self.weight, mindspore.bfloat16)
        output = self.conv2d(x, weight_var)
        output = amp_cast(output, mindspore.float32)
        if self.has_bias:
            output_var = amp_cast(output, mindspore.bfloat16)
            bias_var = amp_cast(self.bias, mindspore.bfloat16)
            output = self.bias_add(output_var, bias_var)
            output = amp_cast(output, mindspore.float32)
        return output
#
sys.path.insert(0, '/work/mind/.venv-mindspore/lib/python3.11/site-packages/mindspore/nn/layer')
from collections import OrderedDict
from mindspore.common.recompute import _RecomputeCell
from container import SequentialCell

class SequentialCellOpt_1(SequentialCell, Cell):

    def __init__(self, obj):
        Cell.__init__(self)
        for key, value in obj.__dict__.items():
            setattr(self, key, value)
        self.cell_list[0] = Conv2dOpt_1(self.cell_list[0])
        self.cell_list[1] = SigmoidOpt(self.cell_list[1])
        self.cell_list[2] = AvgPool2dOpt(self.cell_list[2])
        self.cell_list[3] = Conv2dTransposeOpt(self.cell_list[3])
        self.cell_list[4] = ELUOpt(self.cell_list[4])
        self.cell_list[5] = FlattenOpt_1(self.cell_list[5])
        self.cell_list[6] = DenseOpt_2(self.cell_list[6])
        self.cell_list[7] = SoftmaxOpt(self.cell_list[7])

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self.__class__(OrderedDict(list(self._cells.items())[index]))
        index = _valid_index(len(self), index, self.__class__.__name__)
        return list(self._cells.values())[index]

    def __setitem__(self, index, cell):
        cls_name = self.__class__.__name__
        if _valid_cell(cell, cls_name):
            prefix, _ = _get_prefix_and_index(self._cells)
            index = _valid_index(len(self), index, cls_name)
            key = list(self._cells.keys())[index]
            self._cells[key] = cell
            cell.update_parameters_name(prefix + key + '.')
            self.cell_list = list(self._cells.values())

    def __delitem__(self, index):
        cls_name = self.__class__.__name__
        if isinstance(index, int):
            index = _valid_index(len(self), index, cls_name)
            key = list(self._cells.keys())[index]
            del self._cells[key]
            del self._is_dynamic_name[index]
        elif isinstance(index, slice):
            keys = list(self._cells.keys())[index]
            for key in keys:
                del self._cells[key]
            del self._is_dynamic_name[index]
        else:
            raise TypeError(f"For '{cls_name}', the type of index must be int type or slice type, but got {type(index).__name__}")
        prefix, key_index = _get_prefix_and_index(self._cells)
        temp_dict = OrderedDict()
        for idx, key in enumerate(self._cells.keys()):
            cell = self._cells[key]
            if self._is_dynamic_name[idx]:
                for _, param in cell.parameters_and_names():
                    param.name = prefix + str(idx) + '.' + '.'.join(param.name.split('.')[key_index + 1:])
                temp_dict[str(idx)] = cell
            else:
                temp_dict[key] = cell
        self._cells = temp_dict
        self.cell_list = list(self._cells.values())

    def __setattr__(self, name, value):
        from mindspore.common.recompute import _RecomputeCell
        if isinstance(value, _RecomputeCell):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def __bool__(self):
        return len(self._cells) != 0

    def __len__(self):
        return len(self._cells)

    def set_grad(self, flag=True):
        self.requires_grad = flag
        for cell in self._cells.values():
            cell.set_grad(flag)

    def append(self, cell):
        """
        Appends a given Cell to the end of the list.

        Args:
            cell(Cell): The Cell to be appended.

        Examples:
            >>> import mindspore
            >>> from mindspore import Tensor, nn
            >>> import numpy as np
            >>>
            >>> conv = nn.Conv2d(3, 2, 3, pad_mode='valid', weight_init="ones")
            >>> bn = nn.BatchNorm2d(2)
            >>> relu = nn.ReLU()
            >>> seq = nn.SequentialCell([conv, bn])
            >>> seq.append(relu)
            >>> x = Tensor(np.ones([1, 3, 4, 4]), dtype=mindspore.float32)
            >>> output = seq(x)
            >>> print(output)
            [[[[26.999863 26.999863]
               [26.999863 26.999863]]
              [[26.999863 26.999863]
               [26.999863 26.999863]]]]
        """
        if _valid_cell(cell, self.__class__.__name__):
            prefix, _ = _get_prefix_and_index(self._cells)
            cell.update_parameters_name(prefix + str(len(self)) + '.')
            self._is_dynamic_name.append(True)
            self._cells[str(len(self))] = cell
        self.cell_list = list(self._cells.values())

    def construct(self, input_data):
        self_cell_list = self.cell_list
        for cell in self_cell_list:
            input_data = cell(input_data)
        return input_data

    def _insert(self, index, cell):
        """
        Inserts a given Cell before a given index in the list.

        Args:
            index(int): The Insert index in the CellList.
            cell(Cell): The Cell to be inserted.
        """
        cls_name = self.__class__.__name__
        idx = _valid_index_for_inserting(len(self), index, cls_name)
        _valid_cell(cell, cls_name)
        length = len(self)
        prefix, key_index = _get_prefix_and_index(self._cells)
        while length > idx:
            if self._auto_prefix:
                tmp_cell = self._cells[str(length - 1)]
                for _, param in tmp_cell.parameters_and_names():
                    param.name = f"{prefix}{str(length)}{'.'}{'.'.join(param.name.split('.')[key_index + 1:])}"
            self._cells[str(length)] = self._cells[str(length - 1)]
            length -= 1
        self._cells[str(idx)] = cell
        if self._auto_prefix:
            cell.update_parameters_name(prefix + str(idx) + '.')
        self.cell_list = list(self._cells.values())
        self._is_dynamic_name.insert(index, True)
#