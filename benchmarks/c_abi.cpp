// The C ABI (sonde.h), call by call. An operator is skipped in two ways: outside the chosen steps, where op_begin answers
// 0 and nothing follows; and inside a chosen step, where the plan does not select it and only its place in the graph is
// recorded. SONDE_BENCHMARK_DIR names the place of the dump.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sonde/sonde.h"

namespace {

namespace fs = std::filesystem;

const struct sonde_api& api() { return *sonde_api(SONDE_API_VERSION); }

// A session of its own for each benchmark: statistics of the operators of one type, in the chosen steps.
class Recording {
 public:
  explicit Recording(const char* iteration) {
    const char* place = std::getenv("SONDE_BENCHMARK_DIR");
    root_ = (place != nullptr ? fs::path(place) : fs::temp_directory_path()) /
            ("sonde-c-abi-" + std::to_string(::getpid()));
    fs::create_directories(root_);
    const fs::path config = root_ / "data_dump.json";
    std::ofstream(config) << R"({"common_dump_settings": {"dump_mode": 1, "path": ")" << (root_ / "dump").string()
                          << R"(", "net_name": "Net", "iteration": ")" << iteration
                          << R"(", "saved_data": "statistic", "input_output": 0, "kernels": ["chosen"],)"
                          << R"( "support_device": [0], "statistic_category": ["max"]},)"
                          << R"( "e2e_dump_settings": {"enable": true}})";
    char message[4096];
    if (api().start(config.c_str(), message, sizeof message) != 0) std::abort();
    for (int step = 0; step < 3; ++step) begin_step();
    site_ = site("skipped");
  }
  ~Recording() {
    api().stop(nullptr, 0);
    fs::remove_all(root_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  static void begin_step() { api().root_forward(1, 1, 0); }
  std::uint32_t site() const { return site_; }

 private:
  static std::uint32_t site(const char* type) {
    sonde_site place{};
    place.size = sizeof place;
    place.op_type = type;
    place.scope = "network-Net/block";
    return api().site(&place);
  }

  fs::path root_;
  std::uint32_t site_ = 0;
};

sonde_tensor tensor(const float* data, const std::int64_t* shape, std::uint64_t storage) {
  sonde_tensor t{};
  t.size = sizeof t;
  t.dtype = SONDE_DTYPE_FLOAT32;
  t.data = data;
  t.shape = shape;
  t.ndim = 2;
  t.storage = storage;
  return t;
}

const float kData[32] = {};
const std::int64_t kShape[2] = {4, 8};

// What a host does for an operator that reads one tensor and writes one.
void run_op(std::uint32_t site, std::uint64_t storage) {
  sonde_op* op = nullptr;
  if (api().op_begin(site, SONDE_GRAPH_TRAINING, 0, &op) == 0) return;
  const sonde_tensor input = tensor(kData, kShape, storage), output = tensor(kData, kShape, storage + 1);
  api().op_mutated(op, storage + 1);
  api().op_input(op, 0, &input);
  api().op_output(op, 0, &output);
  api().op_end(op, 0);
}

void outside_the_chosen_steps(benchmark::State& state) {
  const Recording recording("1000000");
  for (auto _ : state) run_op(recording.site(), 1);
}
BENCHMARK(outside_the_chosen_steps);

void in_a_chosen_step_not_selected(benchmark::State& state) {
  const Recording recording("all");
  std::uint64_t number = 0;
  for (auto _ : state) {
    if (++number % 1000 == 0) Recording::begin_step();
    run_op(recording.site(), number % 100 + 1);
  }
}
BENCHMARK(in_a_chosen_step_not_selected);

void without_a_session(benchmark::State& state) {
  for (auto _ : state) run_op(1, 1);
}
BENCHMARK(without_a_session);

// --- inside a chosen step, call by call ------------------------------------------------------------------------------

enum Call { kBegin, kMutated, kInput, kOutput, kEnd };

template <Call call>
void one_call(benchmark::State& state) {
  const Recording recording("all");
  const sonde_tensor input = tensor(kData, kShape, 1), output = tensor(kData, kShape, 2);
  const int times = 16;  // as the clock takes longer than a call; begin and end are pairs, so they come alone
  sonde_op* op = nullptr;
  std::uint64_t number = 0;
  const auto begin = [&] { benchmark::DoNotOptimize(api().op_begin(recording.site(), SONDE_GRAPH_TRAINING, 0, &op)); };
  for (auto _ : state) {
    if (++number % 1000 == 0) Recording::begin_step();
    if (call == kBegin || call == kEnd) {
      begin();
      api().op_end(op, 0);
      continue;
    }
    begin();
    for (int i = 0; i < times; ++i) {
      if (call == kMutated) api().op_mutated(op, 2);
      if (call == kInput) api().op_input(op, 0, &input);
      if (call == kOutput) api().op_output(op, 0, &output);
    }
    api().op_end(op, 0);
  }
  state.counters["calls"] = call == kBegin || call == kEnd ? 1 : times;
}
BENCHMARK(one_call<kBegin>)->Name("begin_and_end");
BENCHMARK(one_call<kMutated>)->Name("begin_16_mutated_end");
BENCHMARK(one_call<kInput>)->Name("begin_16_input_end");
BENCHMARK(one_call<kOutput>)->Name("begin_16_output_end");

}  // namespace

BENCHMARK_MAIN();
