// Writing tensors: the recorder (queue, thread, budget, rename, journal) beside a loop that opens,
// writes and closes. `files_per_second` and `bytes_per_second` are to be compared line by line.
// SONDE_BENCHMARK_DIR names the place.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "dump/formats/npy.h"
#include "record/writer/recorder.h"
#include "record/writer/tensor_writer.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBytesPerRound = 64 << 20;
constexpr std::int64_t kMostFiles = 2000;

std::int64_t files_per_round(std::int64_t bytes) {
  return std::clamp<std::int64_t>(kBytesPerRound / bytes, 1, kMostFiles);
}

fs::path fresh_directory() {
  const char* place = std::getenv("SONDE_BENCHMARK_DIR");
  const fs::path root = place != nullptr ? fs::path(place) : fs::temp_directory_path();
  fs::path directory = root / ("sonde-store-write-" + std::to_string(::getpid()));
  fs::remove_all(directory);
  fs::create_directories(directory);
  return directory;
}

// Different in every file, so that none can be a link to another.
void mark(std::byte* data, std::uint64_t number) { std::memcpy(data, &number, sizeof number); }

void report(benchmark::State& state, std::int64_t bytes, std::int64_t files) {
  state.SetBytesProcessed(state.iterations() * files * bytes);
  state.counters["files_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations() * files), benchmark::Counter::kIsRate);
}

void plain_loop(benchmark::State& state) {
  const std::int64_t bytes = state.range(0);
  const std::int64_t files = files_per_round(bytes);
  std::vector<std::byte> data(static_cast<std::size_t>(bytes), std::byte{1});
  const std::string header = npy_header(DType::float32, std::vector<std::int64_t>{bytes / 4}, false);
  std::uint64_t number = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const fs::path directory = fresh_directory();
    state.ResumeTiming();
    for (std::int64_t i = 0; i < files; ++i) {
      mark(data.data(), ++number);
      const std::string path = directory / ("add.Default_network-Net_block_add-op" + std::to_string(i) +
                                            ".0.0.1700000000000000.output.0.DefaultFormat.Float32.npy");
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (::write(fd, header.data(), header.size()) < 0 || ::write(fd, data.data(), data.size()) < 0) {
        state.SkipWithError("cannot write");
      }
      ::close(fd);
    }
    state.PauseTiming();
    fs::remove_all(directory);
    state.ResumeTiming();
  }
  report(state, bytes, files);
}

void push_mark(Recorder& recorder, RecordKind kind, StepId step) {
  Record mark;
  mark.kind = kind;
  mark.step = step;
  mark.sequence = recorder.next_sequence();
  recorder.push(std::move(mark));
}

void push_tensor(Recorder& recorder, const OpName& name, StepId step, std::uint64_t number,
                 const std::vector<std::byte>& data) {
  Record record;
  record.op = &name;
  record.step = step;
  record.sequence = recorder.next_sequence();
  TensorRecord& tensor = record.tensors.emplace_back();
  const auto elements = static_cast<std::int64_t>(data.size() / 4);
  tensor.dtype = DType::float32;
  tensor.shape = Dims({&elements, 1});
  tensor.content = number;
  tensor.timestamp_us = 1700000000000000;
  tensor.bytes = recorder.blocks().take(data.size());
  std::memcpy(tensor.bytes->data, data.data(), data.size());
  mark(tensor.bytes->data, number);
  recorder.push(std::move(record));
}

// The whole cost of a step, from the host's copy into a block to the last byte of the journal.
void recorder(benchmark::State& state) {
  const std::int64_t bytes = state.range(0);
  const std::int64_t files = files_per_round(bytes);
  const std::vector<std::byte> data(static_cast<std::size_t>(bytes), std::byte{1});
  Plan plan;
  plan.path = fresh_directory();
  plan.net_name = "Net";
  plan.sonde.budget_bytes = 64 << 20;
  const auto opened = Recorder::open(plan, RunInfo{});
  Recorder& recorder = **opened;
  std::vector<OpName> names;
  for (std::int64_t i = 0; i < files; ++i) {
    names.push_back({static_cast<std::uint32_t>(i + 1), "add", "Default/network-Net/block/add-op" + std::to_string(i)});
    recorder.define(names.back());
  }
  std::uint64_t number = 0;
  StepId step;
  for (auto _ : state) {
    push_mark(recorder, RecordKind::step_begin, step);
    for (const OpName& name : names) push_tensor(recorder, name, step, ++number, data);
    push_mark(recorder, RecordKind::step_end, step);
    recorder.flush();
    state.PauseTiming();
    Record written;
    written.step = step;
    written.op = &names.front();
    fs::remove_all(recorder.layout().rank_directory() / recorder.layout().directory_of(written));
    ++step.number;
    state.ResumeTiming();
  }
  recorder.finish();
  if (recorder.error()) state.SkipWithError(recorder.error()->message.c_str());
  fs::remove_all(plan.path);
  report(state, bytes, files);
}

// The cost of one more name for a tensor that is on disk already.
void link_again(benchmark::State& state) {
  Plan plan;
  plan.path = fresh_directory();
  plan.net_name = "Net";
  const Layout layout = *Layout::make(plan, 0);
  const fs::path aside = layout.own_directory() / "partial";
  fs::create_directories(aside);
  auto writer = TensorWriter::open(layout, aside, TensorWriterOptions{});
  BlockPool pool(1 << 20);
  const OpName name{1, "add", "Default/network-Net/block/add-op0"};
  std::vector<StoredFile> stored;
  std::uint64_t number = 0;
  for (auto _ : state) {
    Record record;
    record.op = &name;
    record.step.number = number / 10000;
    TensorRecord& tensor = record.tensors.emplace_back();
    tensor.dtype = DType::float32;
    tensor.content = 1;
    tensor.timestamp_us = ++number;
    if (number == 1) tensor.bytes = pool.take(4);
    stored.clear();
    if (!writer->store(record, stored)) state.SkipWithError("cannot link");
  }
  state.SetItemsProcessed(state.iterations());
  fs::remove_all(plan.path);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t bytes : {256, 8 << 10, 256 << 10, 4 << 20}) benchmark->Arg(bytes);
  benchmark->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
}

BENCHMARK(plain_loop)->Apply(sizes);
BENCHMARK(recorder)->Apply(sizes);
BENCHMARK(link_again);

}  // namespace
}  // namespace sonde

BENCHMARK_MAIN();
