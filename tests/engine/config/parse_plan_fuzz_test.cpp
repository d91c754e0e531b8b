// Runs the fuzz entry over configurations with random damage, which is always the same.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "verdict_case.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sonde::test {
namespace {

constexpr int kRounds = 5000;

void run(const std::string& text) {
  EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
}

std::vector<std::string> corpus() {
  std::vector<std::string> texts = {"", "{}", "[]", "\xEF\xBB\xBF{}", R"({"dump":{}})"};
  // As often as all the others together: files of the other dialects.
  const std::vector<std::string> others = {
      edited({"c.iteration=0", "async_dump_settings={\"enable\": true, \"op_debug_mode\": 3}"}).json,
      edited({"s.version=\"1.3\"", "c.op_debug_mode=0", "c.dump_mode=1", "c.kernels=[\"a/b-op0\"]"}).json,
      edited({"s.version=\"2.3\"", "-e", "c.file_format=\"npy\""}).json,
      R"({"DumpSettings": {"mode": 1, "path": "/d", "net_name": "N", "iteration": 2, "kernels": ["a"], "trans_flag": true,
          "enable": true}})",
      R"({"dump": {"dump_path": "/tmp", "dump_level": "op", "dump_step": "0|3-5", "dump_list": [{"model_name": "A",
          "layer": ["conv2d"], "opname_range": [{"begin": "a", "end": "b"}],
          "optype_blacklist": [{"name": "Conv2D", "pos": ["input0", "output1"]}]}]}})",
      R"({"dump": {"dump_path": "/tmp", "dump_scene": "watcher", "dump_list": [{"layer": ["a"], "watcher_nodes": ["b"]}]}})",
      R"({"dump": {"dump_scene": "aic_err_norm_dump"}})",
      R"({"dump": {"dump_path": "/tmp", "dump_op_switch": "on", "dump_data": "stats", "dump_stats": ["Max", "Nan"],
          "dump_kernel_data": "printf,assert"}})",
      R"({"dump_config": {"enable_dump": true, "dump_path": "/tmp", "dump_mode": "all", "dump_step": "0|2-3",
          "dump_layer": " Add ", "dump_data": "stats"}})"};
  for (int copies = 0; copies < 80; ++copies) texts.insert(texts.end(), others.begin(), others.end());
  for (const VerdictCase& one : read_verdicts(SONDE_VERDICTS)) texts.push_back(edited(one.edits).json);
  return texts;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  // Flips, drops, repeats or inserts a few bytes.
  void mutate(std::string& text) {
    static const std::string kPlants[] = {"[",
                                          "{",
                                          "\"",
                                          "\\",
                                          "(",
                                          "name-regex(",
                                          "null",
                                          "-1",
                                          "1e999",
                                          "\xFF",
                                          std::string(1, '\0'),
                                          "{1000}",
                                          "(?=",
                                          "[^",
                                          "99999999999999999999",
                                          ",",
                                          "}"};
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size() + 1);
      const std::size_t length = std::min(below(20), text.size() - at);
      switch (below(4)) {
        case 0:
          if (at < text.size()) text[at] = static_cast<char>(random_());
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(at, length));
          break;
        default:
          text.insert(at, kPlants[below(std::size(kPlants))]);
      }
    }
  }

 private:
  std::mt19937 random_;
};

TEST(ParsePlanFuzz, SurvivesTheCorpus) {
  for (const std::string& text : corpus()) run(text);
}

TEST(ParsePlanFuzz, SurvivesFilesBrokenAtRandom) {
  const std::vector<std::string> texts = corpus();
  Mutator mutator(20240607);
  for (int round = 0; round < kRounds; ++round) {
    std::string text = texts[mutator.below(texts.size())];
    mutator.mutate(text);
    run(text);
  }
}

TEST(ParsePlanFuzz, SurvivesEveryTruncation) {
  const std::string text = edited({"c.dump_mode=1", "c.kernels=[\"name-regex(.*)\"]"}).json;
  for (std::size_t length = 0; length <= text.size(); ++length) run(text.substr(0, length));
}

}  // namespace
}  // namespace sonde::test
