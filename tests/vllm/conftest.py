"""Runs vLLM in .venv-vllm as its users do, with Sonde and without: a Llama of two layers with random weights."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.request

import pytest
from processes import CLI, clean_environment, run_in

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = pathlib.Path(os.environ.get("SONDE_VLLM_PYTHON") or HERE.parents[1] / ".venv-vllm" / "bin" / "python")
_PATIENCE = 600  # seconds: the imports alone take half a minute


def pytest_sessionstart():
    if not PYTHON.exists():
        pytest.exit(f"no Python with vLLM at '{PYTHON}': scripts/setup --vllm makes it", returncode=2)


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.timeout(3 * _PATIENCE))


_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 256,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "dtype": "float32",
    "tie_word_embeddings": False,
}
_WORDS = ["<s>", "</s>", "<unk>", *(f"w{number}" for number in range(253))]
_TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {word: number for number, word in enumerate(_WORDS)}, "unk_token": "<unk>"},
}
_TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
}


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A directory for the whole session: the model, and what vLLM caches."""
    directory = tmp_path_factory.mktemp("vllm")
    model = directory / "model"
    model.mkdir()
    for name, content in (
        ("config", _CONFIG),
        ("tokenizer", _TOKENIZER),
        ("tokenizer_config", _TOKENIZER_CONFIG),
    ):
        (model / f"{name}.json").write_text(json.dumps(content))
    return directory


def _variables(place, fault):
    return {
        "VLLM_CACHE_ROOT": place / "cache",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": HERE / "faults",
        "PATH": f"{PYTHON.parent}:{os.environ['PATH']}",
        "FAULT": fault,
    }


@pytest.fixture(scope="session")
def generate(place):
    """generate(*options of programs/generate.py, out=…, fault=…, options=…): its end; `tokens`, one line per engine."""

    def run(*arguments, out=None, fault="", options=(), **more):
        command = [PYTHON, HERE / "programs" / "generate.py", place / "model", *arguments]
        if out is not None:
            command = [CLI, "run", "--out", out, *options, "--", *command]
        done = run_in(place, out, *command, timeout=_PATIENCE, **_variables(place, fault), **more)
        done.tokens = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[[")]
        return done

    return run


@pytest.fixture(scope="session")
def sonde(place):
    """sonde(verb, ...): the command as users call it."""
    return lambda *arguments: run_in(place, None, CLI, *arguments)


@pytest.fixture(scope="session")
def steps_of(sonde):
    """steps_of(dump, rank): its steps, as `sonde ls --json` lists them."""

    def steps(dump, rank=0):
        listed = sonde("ls", dump, "--rank", rank, "--json")
        assert listed.status == 0, listed.stderr
        return next(one for one in json.loads(listed.stdout)["ranks"] if one["rank"] == rank)["steps"]

    return steps


class Server:
    """`vllm serve` while it runs."""

    def __init__(self, process, port, log):
        self.process = process
        self.log = log
        self._address = f"http://127.0.0.1:{port}"

    def is_ready(self):
        """False until it answers."""
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self._address}/health", timeout=5):
            return True
        return False

    def complete(self, prompt, name):
        """How many tokens come after `prompt`; `name` is the request's ID."""
        asked = {"model": "tiny", "prompt": prompt, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
        headers = {"Content-Type": "application/json", "X-Request-Id": name}
        request = urllib.request.Request(f"{self._address}/v1/completions", json.dumps(asked).encode(), headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["usage"]["completion_tokens"]


@pytest.fixture(scope="session")
def serve(place):
    """with serve(*options of sonde run, out=…, fault=…) as server: requests; after it, the log is complete."""

    @contextlib.contextmanager
    def serving(*options, out, fault=""):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        own = ["vllm", "serve", place / "model", "--load-format", "dummy", "--served-model-name", "tiny"]
        # Without time to end, vLLM kills its workers at once.
        own += ["--host", "127.0.0.1", "--port", port, "--shutdown-timeout", "60"]
        command = [CLI, "run", "--out", out, *options, "--", *own]
        log = out.with_suffix(".log")
        with log.open("w") as file:
            process = subprocess.Popen(
                [str(part) for part in command],
                cwd=place,
                env=clean_environment(**_variables(place, fault)),
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
            try:
                server, end = Server(process, port, log), time.monotonic() + _PATIENCE
                while not server.is_ready():
                    assert time.monotonic() < end, log.read_text()[-4000:]
                    time.sleep(0.5)
                yield server
            finally:
                process.send_signal(signal.SIGTERM)  # `sonde run` passes it on
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=120)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    return serving
