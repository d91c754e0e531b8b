# Sourced by the other scripts: paths, and functions that report the stages to the user.
SONDE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SONDE_BUILD="$SONDE_ROOT/build"
SONDE_VENV="$SONDE_ROOT/.venv"
SONDE_MINDSPORE_VENV="$SONDE_ROOT/.venv-mindspore"
SONDE_FRAMEWORKS_VENV="$SONDE_ROOT/.venv-frameworks"
SONDE_VLLM_VENV="$SONDE_ROOT/.venv-vllm"
SONDE_PROBE_VENV="$SONDE_ROOT/.venv-probe"
SONDE_LOG="$SONDE_BUILD/setup.log"

# For cmake: compiles through ccache, where it is installed.
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# processor_seconds NAME: into NAME, what programs that were started here and have ended took of the processor. A subshell
# counts its own, so the answer is in a variable.
processor_seconds() {
  local -a lines
  local file="${TMPDIR:-/tmp}/sonde-times.$BASHPID"
  times >"$file"
  mapfile -t lines <"$file"
  rm -f "$file"
  [[ ${lines[1]} =~ ([0-9]+)m([0-9]+)[^\ ]*\ ([0-9]+)m([0-9]+) ]]
  printf -v "$1" %d $((60 * (BASH_REMATCH[1] + BASH_REMATCH[3]) + BASH_REMATCH[2] + BASH_REMATCH[4]))
}

# say_done PREFIX STARTED BEFORE: the seconds since both were taken, of the clock and of the processor.
say_done() {
  local after
  processor_seconds after
  say "    $1done in $((SECONDS - $2)) s, $((after - $3)) s of the processor"
}

# stage TEXT COMMAND...: one line before, one after with the seconds; the output goes to the log, its tail on failure.
# SONDE_BESIDE: the name of a stage that runs beside others.
stage() {
  local text=$1 started=$SECONDS before
  processor_seconds before
  shift
  say "==> $text"
  printf '\n=== %s: %s\n' "$text" "$*" >>"$SONDE_LOG"
  if ! "$@" >>"$SONDE_LOG" 2>&1 </dev/null; then
    tail -n 40 "$SONDE_LOG" >&2
    fail "$text: failed (all of it: $SONDE_LOG)"
  fi
  say_done "${SONDE_BESIDE:+$SONDE_BESIDE: }" "$started" "$before"
}

# The packages of scripts/packages.txt.
package_names() { sed -e 's/#.*//' "$SONDE_ROOT/scripts/packages.txt" | awk 'NF { print $1 }'; }

# site_packages VENV: where its packages are.
site_packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# Where nanobind is, for PYTHONPATH: the extension is compiled for Pythons that lack it.
nanobind_place() { "$SONDE_VENV/bin/python" -c 'import nanobind, os; print(os.path.dirname(nanobind.__path__[0]))'; }

# download_for_arm DIRECTORY NAMES...: packages for ARM64 and all that they need, into DIRECTORY/cache/archives. apt has lists and
# archives of its own, as on a machine where nothing is installed, and needs no root.
download_for_arm() {
  local directory=$1
  rm -rf "$directory"
  mkdir -p "$directory"/{lists,cache/archives}/partial
  : >"$directory/status"
  local apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$directory/lists"
    -o Dir::State::status="$directory/status" -o Dir::Cache="$directory/cache" -o APT::Sandbox::User=)
  "${apt[@]}" update && "${apt[@]}" install -y --download-only --no-install-recommends "${@:2}"
}
