#!/usr/bin/env bash
# Trains LeNet in MindSpore and its port in PyTorch, dumps both with the same file, compares them; then again with each
# of the mistakes that the port can make. Needs .venv-mindspore (scripts/setup --mindspore).
#
#   examples/migration/run_migration.sh [DIRECTORY]    a new one; an absolute path of letters, digits, '-', '_', '/'
set -euo pipefail
out=${1:-/tmp/migration_$$}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../../.venv/bin/python}
sonde=${SONDE:-$(dirname "$python")/sonde}
mindspore=${SONDE_MINDSPORE_PYTHON:-$here/../../.venv-mindspore/bin/python}

[[ -x $mindspore ]] || {
  echo "no $mindspore; run scripts/setup --mindspore, or set SONDE_MINDSPORE_PYTHON" >&2
  exit 2
}
mkdir -p "$(dirname "$out")"
mkdir "$out"

train() {  # NAME COMMAND...; the file names no path, so each training can have its own
  local name=$1
  shift
  echo "$name"
  MINDSPORE_DUMP_CONFIG=$here/data_dump.json MS_DIAGNOSTIC_DATA_PATH=$out/$name "$@"
}

compare() {  # NAME STATUS: the port's dump with the original's; the table of all operators goes into a file
  local status=0
  "$sonde" compare --all "$out/$1" "$out/mindspore" >"$out/$1.txt" || status=$?
  sed -E '/^(without a counterpart:)?$/Q' "$out/$1.txt"
  echo
  [[ $status == "$2" ]] || {
    echo "sonde compare gave status $status for $1; expected $2" >&2
    exit 1
  }
}

"$python" "$here/make_weights.py" "$out/lenet.npz"
train mindspore "$mindspore" "$here/lenet_mindspore.py" "$out/lenet.npz"
train pytorch "$python" "$here/lenet_pytorch.py" "$out/lenet.npz"
compare pytorch 0

for plant in pad_mode epsilon transposed_weight; do
  train "pytorch_$plant" "$python" "$here/lenet_pytorch.py" "$out/lenet.npz" --plant "$plant"
  compare "pytorch_$plant" 1
done
echo "every operator is in $out/pytorch*.txt"
