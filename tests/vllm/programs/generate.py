"""generate.py MODEL [eager] [engines=2]: the tokens of a short and a long request, of each engine, as JSON."""

import json
import sys

from vllm import LLM, SamplingParams


def main(model, *options):
    settings = {"load_format": "dummy", "enforce_eager": "eager" in options, "gpu_memory_utilization": 0.3}
    engines = [LLM(model, **settings) for _ in range(2 if "two" in options else 1)]
    chosen = SamplingParams(max_tokens=3, temperature=0, ignore_eos=True)
    for engine in engines:
        outputs = engine.generate(["w1 w2 w3", "w9 w8 w7 w6 w5 w4 w3 w2"], chosen)
        print(json.dumps([output.outputs[0].token_ids for output in outputs]))


if __name__ == "__main__":
    main(*sys.argv[1:])
