#!/bin/bash
# Beside a training: copies its dump until the recording ends, at 20 MB a second. Credentials come from the environment.
#
#   ./upload.sh /scratch/run7 s3://bucket/run7 &
set -euo pipefail
exec sonde upload "$1" "$2" --follow --limit "${SONDE_LIMIT:-20}"
