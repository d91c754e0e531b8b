// Runs the fuzz entry over configurations broken at random, the same ones every time.
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
  for (const VerdictCase& one : read_verdicts(SONDE_VERDICTS)) texts.push_back(edited(one.edits).json);
  return texts;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  // Flips, drops, repeats or plants a few bytes.
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
