// The keys of configuration files; contract/settings.toml has them all.
#pragma once

#include <string_view>

#include "plan/config/plan.h"

namespace sonde {

// A key of a configuration file and the object it belongs to ("" for the top of the file).
struct KnownKey {
  std::string_view object;
  std::string_view key;
  Release since = Release::v1_2;  // the first MindSpore release that reads it
};

}  // namespace sonde
