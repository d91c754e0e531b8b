#!/usr/bin/env bash
# Dumps AlexNet asynchronously, as CANN's containers, converts one iteration to .npy, and finds what one line computed.
#
#   examples/alexnet/run_async_dump.sh [DIRECTORY]     an absolute path of letters, digits, '-', '_', '/'
set -euo pipefail
dump=${1:-/tmp/alexnet_async_dump}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../../.venv/bin/python}
sonde=${SONDE:-$(dirname "$python")/sonde}

# A file of MindSpore 1.2: `iteration` is a number there.
config=$(mktemp -d)/data_dump.json
cat >"$config" <<JSON
{
  "common_dump_settings": {
    "dump_mode": 0,
    "path": "$dump",
    "net_name": "AlexNet",
    "iteration": 3,
    "input_output": 0,
    "kernels": [],
    "support_device": [0, 1, 2, 3, 4, 5, 6, 7]
  },
  "async_dump_settings": {"enable": true, "op_debug_mode": 0},
  "e2e_dump_settings": {"enable": false, "trans_flag": true}
}
JSON
MINDSPORE_DUMP_CONFIG=$config "$python" "$here/train_alexnet.py" --steps 5

# One file for each operator, with all that went in and out; NumPy reads what is taken out of it.
files=$dump/device_0/AlexNet_graph_0/0/3
find "$files" -name 'conv2d.*conv2-Conv2d*'
"$sonde" convert "$files" --out "$dump/npy/3"

line=$(grep -n 'self.conv2(x)' "$here/train_alexnet.py" | cut -d: -f1)
"$python" "$here/find_operator.py" "$dump/npy" "train_alexnet.py:$line" --graph "$dump/device_0/graphs"
