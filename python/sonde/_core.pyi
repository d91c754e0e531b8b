"""The engine behind the Python face; private, used by sonde.session and by the adapters."""

version: str

def start(config_path: str) -> tuple[bool, str]:
    """Prepare a session: (whether it started, all errors and warnings)."""

def stop() -> str:
    """Flush and end the session; the closing line, empty when there was none."""

def active() -> bool: ...
def take_failure() -> str | None:
    """The failure that the user has not been told yet."""

def manual_step() -> int: ...
def dump_switch(on: bool) -> int: ...
def set_iteration(iteration: int) -> int: ...
def records_exceptions() -> bool:
    """The session's plan asks for the operator that throws."""

def forked_child() -> None: ...
def api() -> int:
    """Address of the engine's function table (struct sonde_api)."""
