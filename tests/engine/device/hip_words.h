// The words that hiprtc puts before a kernel, as far as statistics.cu uses it: tests/python/test_device_kernel.py compiles the kernel
// for AMD with plain clang, without ROCm.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))

struct HipIndex {
  unsigned int x;
};
#define threadIdx (HipIndex{__builtin_amdgcn_workitem_id_x()})
#define blockIdx (HipIndex{__builtin_amdgcn_workgroup_id_x()})

static __device__ inline void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

static __device__ inline unsigned int __float_as_uint(float value) { return __builtin_bit_cast(unsigned int, value); }
static __device__ inline float __uint_as_float(unsigned int bits) { return __builtin_bit_cast(float, bits); }
static __device__ inline long long __double_as_longlong(double value) { return __builtin_bit_cast(long long, value); }
static __device__ inline double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }
static __device__ inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
