"""`sonde serve` as a process of its own, for notebooks and scripts."""

import html
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from .. import remote
from ..errors import Error
from ..msaccucmp import sonde_program

# Notebooks of this machine. The page needs its token all the same.
LOCAL_NOTEBOOKS = ("http://localhost:*", "http://127.0.0.1:*")


class Server:
    """The page of a dump, at `url`. In a notebook it shows itself in the cell. It ends with close(), with the block
    of a `with`, or with this process."""

    def __init__(self, dumps: Sequence[Path], frame: Sequence[str]) -> None:
        program = sonde_program()
        if program is None:
            raise Error("the program 'sonde' is neither beside this package nor on PATH")
        frames = [f"--frame={origin}" for origin in frame]
        command = [program, "serve", *map(str, dumps), "--until-input-ends", *frames]
        pipe = subprocess.PIPE
        # In a session of its own: Ctrl-C is for this process.
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=remote.environment()
        )
        assert self._process.stdout and self._process.stderr
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            message = self._process.stderr.read().strip()
            self.close()
            raise Error(message.removeprefix("sonde: error: ") or "`sonde serve` ended without a word")

    def close(self) -> None:
        """Ends the server. A second call does nothing."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "running" if self._process.poll() is None else "ended"
        return f"<sonde.dump.Server: {self.url.partition('#')[0]}, {state}>"

    def _repr_html_(self) -> str:
        return f'<iframe src="{html.escape(self.url)}" title="Sonde" width="100%" height="700"></iframe>'
