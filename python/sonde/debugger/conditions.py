"""Conditions of watchpoints, and their hits. Meaning and ranges: docs/watch.md."""

from collections.abc import Iterable
from typing import ClassVar

from .. import _core
from .checks import DebuggerParamTypeError, DebuggerParamValueError, check_type, number_of
from .nodes import DebuggerTensor


class ConditionBase:
    """The kind of values that a watchpoint looks for."""

    _number: ClassVar[int]
    _parameters: ClassVar[tuple[str, ...]] = ()
    # One of these must be given; Python itself requires those that a class takes by position.
    _required: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **parameters: float | None) -> None:
        """Raises DebuggerParamTypeError or DebuggerParamValueError."""
        self._values = {name: number_of(name, value) for name, value in parameters.items() if value is not None}
        if self._required and not any(name in self._values for name in self._required):
            raise DebuggerParamValueError(
                f"{type(self).__name__} needs at least one of its parameters {', '.join(self._required)}"
            )
        self._check()
        try:
            _core.check_condition(self.name, list(self._values.items()))
        except ValueError as error:
            raise DebuggerParamValueError(str(error)) from None

    def _check(self) -> None:
        """A parameter that only some conditions need."""

    @property
    def name(self) -> str:
        """The name of the class without `Condition`."""
        return type(self).__name__.removesuffix("Condition")

    @property
    def condition_id(self) -> int:
        """Its number in the debugger's other half."""
        return self._number

    @property
    def param_dict(self) -> dict[str, float]:
        """{name: value} of the parameters that were given or have a default."""
        return dict(self._values)

    @property
    def param_names(self) -> list[str]:
        """Names of all parameters that it accepts."""
        return list(self._parameters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value:g}' for name, value in self._values.items())})"


class TensorTooLargeCondition(ConditionBase):
    """One of the given is greater than its parameter: mean of absolute values, maximum, minimum, mean."""

    _number = 15
    _parameters = _required = ("abs_mean_gt", "max_gt", "min_gt", "mean_gt")

    def __init__(
        self,
        abs_mean_gt: float | None = None,
        max_gt: float | None = None,
        min_gt: float | None = None,
        mean_gt: float | None = None,
    ) -> None:
        super().__init__(abs_mean_gt=abs_mean_gt, max_gt=max_gt, min_gt=min_gt, mean_gt=mean_gt)


class TensorTooSmallCondition(ConditionBase):
    """One of the given is less than its parameter: mean of absolute values, maximum, minimum, mean."""

    _number = 16
    _parameters = _required = ("abs_mean_lt", "max_lt", "min_lt", "mean_lt")

    def __init__(
        self,
        abs_mean_lt: float | None = None,
        max_lt: float | None = None,
        min_lt: float | None = None,
        mean_lt: float | None = None,
    ) -> None:
        super().__init__(abs_mean_lt=abs_mean_lt, max_lt=max_lt, min_lt=min_lt, mean_lt=mean_lt)


class TensorRangeCondition(ConditionBase):
    """The percentage of elements inside a range (both ends included), or the maximum minus the minimum, is too small or
    too large."""

    _number = 21
    _parameters = (
        "range_start_inclusive",
        "range_end_inclusive",
        "range_percentage_lt",
        "range_percentage_gt",
        "max_min_lt",
        "max_min_gt",
    )
    _required = _parameters[2:]

    def __init__(  # noqa: PLR0917 - the original's parameters
        self,
        range_start_inclusive: float | None = None,
        range_end_inclusive: float | None = None,
        range_percentage_lt: float | None = None,
        range_percentage_gt: float | None = None,
        max_min_lt: float | None = None,
        max_min_gt: float | None = None,
    ) -> None:
        super().__init__(
            range_start_inclusive=range_start_inclusive,
            range_end_inclusive=range_end_inclusive,
            range_percentage_lt=range_percentage_lt,
            range_percentage_gt=range_percentage_gt,
            max_min_lt=max_min_lt,
            max_min_gt=max_min_gt,
        )

    def _check(self) -> None:
        percentage = "range_percentage_lt" in self._values or "range_percentage_gt" in self._values
        if percentage and not {"range_start_inclusive", "range_end_inclusive"} <= self._values.keys():
            raise DebuggerParamValueError(
                "TensorRangeCondition needs both range_start_inclusive and range_end_inclusive with a range_percentage"
            )


class TensorOverflowCondition(ConditionBase):
    """There is a NaN or an infinity."""

    _number = 13

    def __init__(self) -> None:
        super().__init__()


class OperatorOverflowCondition(ConditionBase):
    """The device has recorded an overflow of the operator."""

    _number = 2

    def __init__(self) -> None:
        super().__init__()


class OperatorWithoutEffectCondition(ConditionBase):
    """The result equals an operand although the other one is not neutral. Sonde's own."""

    _number = 100

    def __init__(self) -> None:
        super().__init__()


class TensorAllZeroCondition(ConditionBase):
    """The percentage of zeros is at least this."""

    _number = 17
    _parameters = ("zero_percentage_ge",)

    def __init__(self, zero_percentage_ge: float) -> None:
        super().__init__(zero_percentage_ge=number_of("zero_percentage_ge", zero_percentage_ge))


class TensorUnchangedCondition(ConditionBase):
    """Every element is close to that of the step before: |now - before| <= atol + rtol * |before|."""

    _number = 20
    _parameters = ("rtol", "atol", "equal_nan")

    def __init__(self, rtol: float = 1e-5, atol: float = 1e-8) -> None:
        super().__init__(rtol=number_of("rtol", rtol), atol=number_of("atol", atol))


class TensorChangeBelowThresholdCondition(ConditionBase):
    """mean(|now - before|) / (mean(|before|) + epsilon) is less than this."""

    _number = 19
    _parameters = ("abs_mean_update_ratio_lt", "epsilon")

    def __init__(self, abs_mean_update_ratio_lt: float, epsilon: float = 1e-9) -> None:
        ratio = number_of("abs_mean_update_ratio_lt", abs_mean_update_ratio_lt)
        super().__init__(abs_mean_update_ratio_lt=ratio, epsilon=number_of("epsilon", epsilon))


class TensorChangeAboveThresholdCondition(ConditionBase):
    """mean(|now - before|) / (mean(|before|) + epsilon) is greater than this."""

    _number = 18
    _parameters = ("abs_mean_update_ratio_gt", "epsilon")

    def __init__(self, abs_mean_update_ratio_gt: float, epsilon: float = 1e-9) -> None:
        ratio = number_of("abs_mean_update_ratio_gt", abs_mean_update_ratio_gt)
        super().__init__(abs_mean_update_ratio_gt=ratio, epsilon=number_of("epsilon", epsilon))


class Watchpoint:
    """Tensors, and the condition to check on them."""

    def __init__(self, tensors: DebuggerTensor | Iterable[DebuggerTensor], condition: ConditionBase) -> None:
        """Raises DebuggerParamTypeError."""
        if isinstance(tensors, DebuggerTensor):
            tensors = [tensors]
        if not hasattr(tensors, "__iter__"):
            raise DebuggerParamTypeError(f"tensors must be a list of DebuggerTensor, not {type(tensors).__name__}")
        self._tensors = list(tensors)
        for tensor in self._tensors:
            check_type("each of tensors", tensor, DebuggerTensor)
        check_type("condition", condition, ConditionBase)
        self._condition = condition

    @property
    def tensors(self) -> list[DebuggerTensor]:
        """The tensors, as given."""
        return self._tensors

    @property
    def condition(self) -> ConditionBase:
        """The condition, as given."""
        return self._condition


class HitDetail(str):
    """The parameters of a condition and the tensor's values, as text."""

    __slots__ = ()

    @classmethod
    def of(cls, parameters: Iterable[tuple[str, float, float | None, bool]]) -> "HitDetail":
        """parameters: (name, value, actual, hit)

        In the words of MindSpore's debugger. `sonde watch` has a pair of sentences for each check
        (src/ask/watch/watchpoints.h).
        """
        hits = [(name, value, actual) for name, value, actual, hit in parameters if hit and actual is not None]
        if not hits:
            return cls("None.")
        wanted = ", ".join(f"{name} = {value}" for name, value, _ in hits)
        found = ", ".join(f"{name} = {actual}" for name, _, actual in hits)
        return cls(f"The setting for watchpoint is {wanted}. The actual value of the tensor is {found}.")


class WatchpointHit:
    """A tensor that meets a condition; or, with an error code, one on which it could not be checked."""

    def __init__(
        self, tensor: DebuggerTensor, condition: ConditionBase, detail: HitDetail | None, error_code: int
    ) -> None:
        self._tensor = tensor
        self._condition = condition
        self._detail = detail
        self._error_code = error_code

    @property
    def tensor(self) -> DebuggerTensor:
        """The tensor that was checked."""
        return self._tensor

    @property
    def error_code(self) -> int:
        """Bits: 1 NaN, 2 infinity, 4 no value of the step before, 8 too large, 16 no history, 32 no value."""
        return self._error_code

    @property
    def error_msg(self) -> list[str]:
        """The meaning of the bits, as a list."""
        return _core.watch_errors(self._error_code)

    def get_hit_detail(self) -> HitDetail | None:
        """The parameters and the found values, as text; None if the tensor could not be judged."""
        return self._detail

    def get_threshold(self) -> dict[str, float]:
        """{parameter: value} of the condition."""
        return self._condition.param_dict

    def __str__(self) -> str:
        done = "check failed" if self._detail is None else "triggered"
        lines = [f"Watchpoint {self._condition.name} {done} on tensor:", str(self._tensor)]
        lines.append(f"Threshold: {self.get_threshold()}")
        if self._detail is not None:
            lines.append(f"Hit detail: {self._detail}")
        if self._error_code:
            lines.append(f"Error detail: {self.error_msg}")
        return "\n".join(lines)
