"""The interface between a session and a framework that it watches."""

import abc
from collections.abc import Callable
from typing import ClassVar

plan_key = ""  # of the session that began last: a hash of its configuration


class Host(abc.ABC):
    """A framework, watched for one session: made when the framework is imported and the session exists."""

    can_look_for_model: ClassVar[bool] = False  # in a process that may never run one: first_model.py
    current: ClassVar["Host | None"] = None  # of each class: the one of the session that runs

    def __init__(self, end_if_over: Callable[[], None]) -> None:
        """`end_if_over`: called at the boundaries of steps; it ends the program if `stop_after` requires it."""
        self.end_if_over = end_if_over

    @classmethod
    def attach(cls, end_if_over: Callable[[], None]) -> "Host":
        """Starts watching. Raises Error if it cannot."""
        host = cls(end_if_over)
        cls.current = host
        return host

    def detach(self) -> None:
        """Stops watching; removes all hooks from the user's objects."""
        self.close()
        type(self).current = None

    def forked_child(self) -> None:
        """In a forked child: hooks in the user's objects become inactive."""
        type(self).current = None

    def let_go(self) -> None:  # noqa: B027 - a host without hooks has nothing to do
        """In a forked child that begins a session of its own: removes the hooks of the parent's."""

    @abc.abstractmethod
    def close(self) -> None:
        """Removes the hooks."""

    @abc.abstractmethod
    def step(self) -> None:
        """sonde.step(): the user says that the step ends here."""

    @abc.abstractmethod
    def dump_switch(self, on: bool) -> None:
        """sonde.dump_start() and sonde.dump_stop()."""

    @abc.abstractmethod
    def set_step(self, step: int) -> None:
        """sonde.dump_set_iteration()."""
