// DumpSettings: what of a plan says how a dump is to be read: what is missing in it, and when its inputs were read.
#pragma once

#include <array>
#include <string_view>

namespace sonde {
struct Plan;

// The words of `inputs`, in configurations and in the journal: index 1 is inputs_after.
inline constexpr std::array<std::string_view, 2> kInputsWords = {"before", "after"};

struct DumpSettings {
  bool only_overflows = false;   // ops whose results were finite were not kept
  bool only_exceptions = false;  // nothing but the op that failed was kept
  bool inputs_after = false;     // inputs are as their operator left them
  bool reread = false;           // every input was read again, also where nobody is known to have written it

  // What holds in one of several runs is taken to hold in all.
  void add(const DumpSettings& other);
  bool operator==(const DumpSettings&) const = default;
};

DumpSettings settings_of(const Plan& plan);

}  // namespace sonde
