"""The statistics kernel of devices before the compilers that a GPU has: NVRTC, nvcc, clang for AMD. It does not run.

Its algorithm runs on the CPU in tests/engine/device.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNEL = ROOT / "src/ground/device/statistics.cu"
ENGINE_TEST = ROOT / "build/tests/engine/device/device_test"
NVRTC = sorted((ROOT / "build/nvrtc").glob("nvidia/*/lib/libnvrtc.so.*"))
AMD_CLANG = next((path for path in map(shutil.which, ("clang", "clang-19", "clang-16", "clang-14")) if path), None)


def run(*command, **variables):
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@pytest.mark.skipif(not NVRTC, reason="no build/nvrtc; run scripts/setup --nvrtc")
@pytest.mark.skipif(not ENGINE_TEST.exists(), reason="the engine's tests are not built")
def test_nvrtc_compiles_it_as_the_engine_does():
    """Code for the architectures that NVRTC knows, PTX for a newer one, an error for an old one."""
    said = run(ENGINE_TEST, "--gtest_filter=Nvrtc.*", SONDE_TEST_NVRTC=str(NVRTC[0]))
    assert "[  PASSED  ] 3 tests." in said


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
def test_nvcc_compiles_it_without_spilling_much(tmp_path):
    said = run(
        "nvcc", f"-I{ROOT / 'src'}", "-std=c++17", "-fmad=false", "-gencode=arch=compute_75,code=sm_75",
        "-gencode=arch=compute_90,code=[sm_90,compute_90]", "-Xptxas=-v", "-fatbin",
        "-o", tmp_path / "kernel.fatbin", KERNEL,
    )  # fmt: skip
    assert (tmp_path / "kernel.fatbin").stat().st_size < 1_000_000
    used = re.findall(r"Used (\d+) registers.*?(\d+) bytes smem", said)
    assert len(used) == 2
    assert all(int(registers) <= 128 and int(shared) <= 48 * 1024 for registers, shared in used), said
    assert all(int(spilled) <= 64 for spilled in re.findall(r"(\d+) bytes spill stores", said)), said


@pytest.mark.skipif(AMD_CLANG is None, reason="no clang on this machine")
def test_clang_compiles_it_for_amd(tmp_path):
    """As hiprtc does, with the same words and without its headers. Fused products would change bits."""
    run(
        AMD_CLANG, "-x", "hip", "--offload-arch=gfx90a", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-std=c++17",
        "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "src",
        "-include", ROOT / "tests/engine/device/hip_words.h", "-S", "-o", tmp_path / "kernel.s", KERNEL,
    )  # fmt: skip
    text = (tmp_path / "kernel.s").read_text()
    assert "sonde_statistics" in text
    assert re.search(r"\.vgpr_spill_count: +0\n", text)
    assert len(re.findall(r"v_(?:pk_)?fma_f(?:32|64)", text)) <= 1
