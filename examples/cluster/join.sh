#!/bin/bash
# The answer of the jobs of verify.sbatch: ranks without a part are verified here.
#
#   ./join.sh /shared/run7 /shared/run7.parts --json
set -euo pipefail
dump=$1 parts=$2
exec sonde verify "$dump" --parts "$parts" "${@:3}"
