"""Reads the output of train_alexnet.py on standard input: how much slower the dumped steps were than the others.

python slowdown.py 3 6 9 < train.log
"""

import re
import statistics
import sys


def main():
    dumped = {int(argument) for argument in sys.argv[1:]}
    times = {int(step): float(ms) for step, ms in re.findall(r"^step (\d+): .* ([\d.]+) ms$", sys.stdin.read(), re.M)}
    with_dump = [ms for step, ms in times.items() if step in dumped]
    without = [ms for step, ms in times.items() if step not in dumped and step > 0]  # step 0 warms up
    if not with_dump or not without:
        sys.exit("the training printed no times of dumped and other steps")
    slow, fast = statistics.median(with_dump), statistics.median(without)
    print(
        f"dumped steps {slow:.0f} ms, the others {fast:.0f} ms (medians of {len(with_dump)} and {len(without)}): "
        f"{slow / fast:.2f} times as long"
    )


if __name__ == "__main__":
    main()
