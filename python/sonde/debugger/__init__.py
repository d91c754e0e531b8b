"""MindSpore's offline debugger with its original interface: the Python package of MindSpore Insight until 2024.

    from sonde.debugger import DumpAnalyzer, TensorTooLargeCondition, Watchpoint

    analyzer = DumpAnalyzer("/data/run7")
    tensors = analyzer.select_tensors("lenet.py:49", select_by="code_stack")
    for hit in analyzer.check_watchpoints([Watchpoint(tensors, TensorTooLargeCondition(abs_mean_gt=0.5))]):
        print(hit)

The same names, arguments, defaults and results, over any dump that `sonde.open` opens: MindSpore's of any version,
those of PyTorch, with and without graph files. The differences: docs/compatibility.md, "The offline debugger's
package".
"""

from .analyzer import DumpAnalyzer
from .checks import DebuggerParamTypeError, DebuggerParamValueError
from .conditions import (
    ConditionBase,
    HitDetail,
    OperatorOverflowCondition,
    OperatorWithoutEffectCondition,
    TensorAllZeroCondition,
    TensorChangeAboveThresholdCondition,
    TensorChangeBelowThresholdCondition,
    TensorOverflowCondition,
    TensorRangeCondition,
    TensorTooLargeCondition,
    TensorTooSmallCondition,
    TensorUnchangedCondition,
    Watchpoint,
    WatchpointHit,
)
from .nodes import DebuggerTensor, Node, Source
from .parser import DumpParser
from .statistics import TensorStatistic

__all__ = [
    "ConditionBase",
    "DebuggerParamTypeError",
    "DebuggerParamValueError",
    "DebuggerTensor",
    "DumpAnalyzer",
    "DumpParser",
    "HitDetail",
    "Node",
    "OperatorOverflowCondition",
    "OperatorWithoutEffectCondition",
    "Source",
    "TensorAllZeroCondition",
    "TensorChangeAboveThresholdCondition",
    "TensorChangeBelowThresholdCondition",
    "TensorOverflowCondition",
    "TensorRangeCondition",
    "TensorStatistic",
    "TensorTooLargeCondition",
    "TensorTooSmallCondition",
    "TensorUnchangedCondition",
    "Watchpoint",
    "WatchpointHit",
]
