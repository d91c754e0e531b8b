#!/usr/bin/env bash
# Dumps AlexNet synchronously, as .npy files, and finds what one line of the program computed.
#
#   examples/alexnet/run_sync_dump.sh [DIRECTORY]     an absolute path of letters, digits, '-', '_', '/'
set -euo pipefail
dump=${1:-/tmp/alexnet_sync_dump}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../../.venv/bin/python}

# Two iterations around the one in question are enough to see a value go wrong, and what it was before.
config=$(mktemp -d)/data_dump.json
cat >"$config" <<JSON
{
  "common_dump_settings": {
    "dump_mode": 0,
    "path": "$dump",
    "net_name": "AlexNet",
    "iteration": "2-3",
    "input_output": 0,
    "kernels": [],
    "support_device": [0, 1, 2, 3, 4, 5, 6, 7]
  },
  "e2e_dump_settings": {"enable": true, "trans_flag": true}
}
JSON
MINDSPORE_DUMP_CONFIG=$config "$python" "$here/train_alexnet.py" --steps 5

# Line 29 is `x = self.max_pool2d(self.relu(self.conv2(x)))`: three operators, and what goes in and out of each.
line=$(grep -n 'self.conv2(x)' "$here/train_alexnet.py" | cut -d: -f1)
"$python" "$here/find_operator.py" "$dump" "train_alexnet.py:$line" --step 3
