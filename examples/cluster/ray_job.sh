#!/bin/bash
# A question, whose ranks the workers of a Ray cluster index or verify: `ray job submit -- ./ray_job.sh first-bad /shared/run7`.
# In a job Ray sets RAY_ADDRESS. Workers see the dump under the same path, and have the same version of tensorsonde[ray]. On
# Kubernetes: KubeRay's image with it, and the dump's volume in head and workers.
set -euo pipefail
verb=$1 dump=$2
exec sonde "$verb" "$dump" --engine "${SONDE_ENGINE:-ray}" "${@:3}"
