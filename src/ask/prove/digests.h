// Compares the results of two runs of one command, as recorded by python/sonde/prove.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sonde {

struct Difference {
  std::string process;  // "main", "rank 1"
  std::size_t event = 0;
  std::string place;       // "step 1, after SGD.step"
  std::string kind, name;  // "gradient", "Small.conv.weight"; empty if the event is missing or a different one
  std::string first, second;
};

struct DigestComparison {
  std::set<std::string> processes;
  std::size_t events = 0, steps = 0, tensors = 0;  // equal ones, before the first difference of each process
  std::vector<std::string> kinds;                  // "parameter", "random state", …, in the order of their first one
  std::map<std::string, std::size_t> skipped;      // reason -> tensors that could not be read
  std::optional<Difference> first_difference;      // the earliest over all processes
};

// Two directories that runs wrote with SONDE_PROVE.
DigestComparison compare_digests(const std::filesystem::path& first, const std::filesystem::path& second);

// Several processes may write the same lines, or the same characters, in another order.
enum class Reordered : std::uint8_t { nothing, lines, characters };

struct OutputComparison {
  std::size_t lines = 0;
  std::vector<std::size_t> different;  // line numbers from 1 in `first`; greater ones for lines that `second` has more
  Reordered reordered = Reordered::nothing;
};
// `any_order`: several processes wrote, so neither the order of their lines is defined nor, if they write without
// buffers, the order of the pieces of a line. It is enough that the characters are the same.
OutputComparison compare_output(const std::filesystem::path& first, const std::filesystem::path& second,
                                bool any_order);

}  // namespace sonde
