// DumpSettings: the settings of a plan that a reader of the dump needs: missing parts, and the time of reading inputs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sonde {
struct Plan;

// The values of `inputs`, in configurations and in the journal: index 1 is inputs_after.
inline constexpr std::array<std::string_view, 2> kInputsWords = {"before", "after"};

struct DumpSettings {
  bool only_overflows = false;        // ops with finite results were not kept
  std::uint32_t overflow_number = 0;  // then nothing is kept after so many of them; 0: it is not known, or has no limit
  bool only_exceptions = false;       // only the op that failed was kept
  bool inputs_after = false;          // inputs are in the state after their operator
  bool reread = false;                // every input was read again, even without a known write

  // A setting of one of several runs is assumed for all.
  void add(const DumpSettings& other);
  bool operator==(const DumpSettings&) const = default;
};

DumpSettings settings_of(const Plan& plan);

}  // namespace sonde
