// Statistics kernels beside memory bandwidth: every dtype in cache and out of it, just written, strided views, the copy.
// MD5 and SHA-1 of several tensors at once, with every kernel, beside OpenSSL, which takes one after the other.
//
//   statistics_kernels --benchmark_filter=f32       (SONDE_KERNEL=avx2 measures another kernel)
//
// `plain_read` and `memcpy` are what the machine can do at most with bytes of that place.
#include <benchmark/benchmark.h>
#include <openssl/evp.h>

#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ground/stats/multi_hash.h"
#include "ground/stats/statistics.h"

namespace {

using sonde::DType;
using sonde::TensorView;

constexpr std::size_t kCacheBytes = 512 << 10;  // fits a second-level cache
constexpr std::size_t kMemoryBytes = 256 << 20;

// Ordinary values of a dtype: a few bytes of a normal distribution would do, but every format must be finite.
std::vector<std::byte> finite_elements(DType dtype, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  std::mt19937 random(1);
  const std::size_t item_bytes = sonde::info(dtype).item_bytes;
  const std::size_t period = std::min<std::size_t>(bytes, 64 << 10);
  for (std::size_t at = 0; at + item_bytes <= period; at += item_bytes) {
    const auto value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 256.0F;
    std::uint64_t code = random();
    if (dtype == DType::float32) std::memcpy(&code, &value, 4);
    const double wide = value;
    if (dtype == DType::float64) std::memcpy(&code, &wide, 8);
    if (dtype == DType::bfloat16) code = (code & 0x80FF) | 0x3F00;
    if (dtype == DType::float16) code &= 0xBFFF;
    if (dtype == DType::bool8) code &= 1;
    if (dtype >= DType::float8_e4m3fn && dtype <= DType::float8_e8m0fnu) code &= 0x3F;
    std::memcpy(data.data() + at, &code, item_bytes);
  }
  for (std::size_t at = period; at < bytes; at += period) {
    std::memcpy(data.data() + at, data.data(), std::min(period, bytes - at));
  }
  return data;
}

void set_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

struct Shape {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

TensorView view_of(DType dtype, const std::vector<std::byte>& data, const Shape& shape) {
  TensorView view;
  view.dtype = dtype;
  view.data = data.data();
  view.shape = shape.sizes;
  view.strides = shape.strides;
  return view;
}

Shape flat(DType dtype, std::size_t bytes) {
  return {{static_cast<std::int64_t>(bytes / sonde::info(dtype).item_bytes)}, {1}};
}

void summarize(benchmark::State& state, DType dtype, std::size_t bytes) {
  const std::vector<std::byte> data = finite_elements(dtype, bytes);
  const Shape shape = flat(dtype, bytes);
  const TensorView view = view_of(dtype, data, shape);
  for (auto _ : state) benchmark::DoNotOptimize(sonde::summarize(view));
  set_bytes(state, bytes);
}

// Tensors that were just written, several in turn: how far they are still in the caches depends on their bytes.
void summarize_written(benchmark::State& state, DType dtype, std::size_t bytes) {
  constexpr std::size_t kTurns = 16;
  const std::vector<std::byte> data = finite_elements(dtype, bytes);
  std::vector<std::byte> written(kTurns * bytes);
  const Shape shape = flat(dtype, bytes);
  TensorView view = view_of(dtype, data, shape);
  std::size_t turn = 0;
  for (auto _ : state) {
    std::byte* const tensor = written.data() + turn++ % kTurns * bytes;
    std::memcpy(tensor, data.data(), bytes);
    view.data = tensor;
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(sonde::summarize(view));
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  set_bytes(state, bytes);
}

// A tensor of zeros, as masks and gradients are.
void summarize_zeros(benchmark::State& state, DType dtype, std::size_t bytes) {
  const std::vector<std::byte> data(bytes);
  const Shape shape = flat(dtype, bytes);
  const TensorView view = view_of(dtype, data, shape);
  for (auto _ : state) benchmark::DoNotOptimize(sonde::summarize(view));
  set_bytes(state, bytes);
}

// One NaN in every block: each is done again with care.
void summarize_nans(benchmark::State& state, std::size_t bytes) {
  std::vector<std::byte> data = finite_elements(DType::float32, bytes);
  for (std::size_t at = 0; at < bytes; at += 4096) std::memset(data.data() + at, 0xFF, 4);
  const Shape shape = flat(DType::float32, bytes);
  const TensorView view = view_of(DType::float32, data, shape);
  for (auto _ : state) benchmark::DoNotOptimize(sonde::summarize(view));
  set_bytes(state, bytes);
}

void summarize_and_copy(benchmark::State& state, std::size_t bytes) {
  const std::vector<std::byte> data = finite_elements(DType::float32, bytes);
  std::vector<std::byte> out(bytes);
  const Shape shape = flat(DType::float32, bytes);
  const TensorView view = view_of(DType::float32, data, shape);
  for (auto _ : state) benchmark::DoNotOptimize(sonde::summarize_and_copy(view, out.data()));
  set_bytes(state, bytes);
}

// `columns` of every row twice as long, or every second element, or a transpose; of float32.
void strided(benchmark::State& state, const Shape& shape, std::size_t memory_bytes, bool copy) {
  const std::vector<std::byte> data = finite_elements(DType::float32, memory_bytes);
  const TensorView view = view_of(DType::float32, data, shape);
  std::vector<std::byte> out(copy ? view.bytes() : 0);
  for (auto _ : state) {
    if (copy) {
      sonde::copy_c_order(view, out.data());
      benchmark::ClobberMemory();
    } else {
      benchmark::DoNotOptimize(sonde::summarize(view));
    }
  }
  set_bytes(state, view.bytes());
}

void plain_read(benchmark::State& state, std::size_t bytes) {
  const std::vector<std::uint64_t> data(bytes / 8, 3);
  for (auto _ : state) {
    std::uint64_t sums[16] = {};
    for (std::size_t i = 0; i < data.size(); i += 16) {
      for (std::size_t k = 0; k < 16; ++k) sums[k] += data[i + k];
    }
    benchmark::DoNotOptimize(sums);
  }
  set_bytes(state, bytes);
}

void plain_copy(benchmark::State& state, std::size_t bytes) {
  const std::vector<std::byte> data(bytes, std::byte{3});
  std::vector<std::byte> out(bytes);
  for (auto _ : state) {
    std::memcpy(out.data(), data.data(), bytes);
    benchmark::ClobberMemory();
  }
  set_bytes(state, bytes);
}

void hash_by_openssl(benchmark::State& state, const EVP_MD* algorithm, std::size_t tensors, std::size_t bytes) {
  const std::vector<std::byte> data = finite_elements(DType::float32, tensors * bytes);
  for (auto _ : state) {
    for (std::size_t i = 0; i < tensors; ++i) {
      unsigned char digest[EVP_MAX_MD_SIZE];
      EVP_Digest(data.data() + i * bytes, bytes, digest, nullptr, algorithm, nullptr);
      benchmark::DoNotOptimize(digest);
    }
  }
  set_bytes(state, tensors * bytes);
}

void hash_together(benchmark::State& state, sonde::HashAlgorithm algorithm, const sonde::HashKernel& kernel,
                   std::size_t tensors, std::size_t bytes) {
  const std::vector<std::byte> data = finite_elements(DType::float32, tensors * bytes);
  std::vector<sonde::HashMessage> messages(tensors);
  sonde::MultiHash hash(algorithm, kernel);
  for (auto _ : state) {
    for (std::size_t i = 0; i < tensors; ++i) {
      messages[i].data = data.data() + i * bytes;
      messages[i].bytes = bytes;
      hash.add(messages[i]);
    }
    hash.run();
    benchmark::DoNotOptimize(messages.data());
  }
  set_bytes(state, tensors * bytes);
}

template <typename Function>
void add(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), function);
}

void add_hashes(std::size_t tensors, std::size_t bytes) {
  std::string end = std::to_string(tensors);
  end += "x" + std::to_string(bytes);
  for (const auto algorithm : {sonde::HashAlgorithm::md5, sonde::HashAlgorithm::sha1}) {
    const bool md5 = algorithm == sonde::HashAlgorithm::md5;
    const std::string name = md5 ? "md5/" : "sha1/";
    add(name + "openssl/" + end,
        [=](auto& state) { hash_by_openssl(state, md5 ? EVP_md5() : EVP_sha1(), tensors, bytes); });
    for (const sonde::HashKernel& kernel : sonde::hash_kernels()) {
      add(name + std::string(kernel.name) + "/" + end,
          [=](auto& state) { hash_together(state, algorithm, kernel, tensors, bytes); });
    }
  }
}

void add_written(std::size_t kilobytes) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const std::string name =
        "written/" + std::string(sonde::info(dtype).lower) + "/" + std::to_string(kilobytes) + "_KB";
    benchmark::RegisterBenchmark(name.c_str(), [=](auto& state) {
      summarize_written(state, dtype, kilobytes << 10);
    })->UseManualTime();
  }
}

void add_all(const std::string& place, std::size_t bytes) {
  add("plain_read/" + place, [=](auto& state) { plain_read(state, bytes); });
  add("memcpy/" + place, [=](auto& state) { plain_copy(state, bytes); });
  for (const sonde::DTypeInfo& row : sonde::all_dtypes()) {
    if (!row.has_statistics) continue;
    const DType dtype = row.dtype;
    add("summarize/" + std::string(row.lower) + "/" + place, [=](auto& state) { summarize(state, dtype, bytes); });
  }
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float8_e4m3fn}) {
    const std::string name = "summarize/zeros_of_" + std::string(sonde::info(dtype).lower) + "/";
    add(name + place, [=](auto& state) { summarize_zeros(state, dtype, bytes); });
  }
  add("summarize/float32_with_nans/" + place, [=](auto& state) { summarize_nans(state, bytes); });
  add("summarize_and_copy/float32/" + place, [=](auto& state) { summarize_and_copy(state, bytes); });
  const auto elements = static_cast<std::int64_t>(bytes / 4);
  const std::int64_t rows = elements / 1024;
  const Shape long_runs = {{rows, 512}, {1024, 1}};
  const Shape short_runs = {{elements / 64, 32}, {64, 1}};
  const Shape apart = {{elements / 2}, {2}};
  std::int64_t side = 1;
  while (side * side * 4 <= elements) side *= 2;
  const Shape transposed = {{side, elements / side}, {1, side}};
  add("strided/runs_of_512/" + place, [=](auto& state) { strided(state, long_runs, bytes, false); });
  add("strided/runs_of_32/" + place, [=](auto& state) { strided(state, short_runs, bytes, false); });
  add("strided/every_second/" + place, [=](auto& state) { strided(state, apart, bytes, false); });
  add("strided/transposed/" + place, [=](auto& state) { strided(state, transposed, bytes, false); });
  add("copy/transposed/" + place, [=](auto& state) { strided(state, transposed, bytes, true); });
  add("copy/runs_of_32/" + place, [=](auto& state) { strided(state, short_runs, bytes, true); });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("kernel", std::string(sonde::kernel_name()));
  add("summarize/float32/10_elements", [](auto& state) { summarize(state, DType::float32, 40); });
  add("summarize/float32/1000_elements", [](auto& state) { summarize(state, DType::float32, 4000); });
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{1} << 20}) {
    for (const std::size_t tensors : {1, 16, 64}) add_hashes(tensors, bytes);
  }
  add_all("cache", kCacheBytes);
  add_all("memory", kMemoryBytes);
  for (const std::size_t kilobytes : {512, 1024, 2048, 4096, 8192}) add_written(kilobytes);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
