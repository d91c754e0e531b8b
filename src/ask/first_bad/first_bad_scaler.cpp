// Infinities that make a loss scaler skip the step: those of a scale that is too large, and those of any scale.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ask/first_bad/bad_cause.h"
#include "ask/first_bad/first_bad_search.h"

namespace sonde {
namespace {

// A scaler begins too high, on purpose, and halves its scale at each skip. It is stuck after that many skips below that
// scale, which trainings in float16 do not fall below.
constexpr std::size_t kMostSkips = 6;
constexpr double kLowScale = 1024;

std::optional<double> true_value(const Cause& cause) {
  const auto found = std::ranges::find(cause.numbers, "true value", &NamedValue<double>::name);
  return found == cause.numbers.end() ? std::nullopt : std::optional(std::fabs(found->value));
}

}  // namespace

bool is_stuck(const RankSearch::Skips& skips) {
  if (skips.scale && *skips.scale <= 1 && skips.count > 1) return true;
  return skips.count >= kMostSkips && skips.scale.value_or(1) <= kLowScale;
}

std::string why_no_scale_helps(RankSearch& search, const Root& root) {
  ValueFlow& flow = search.flow();
  if (root.tensor == nullptr) return "";
  const FlowOp& op = flow.ops()[root.op];
  if (flow.born_before_scale(root)) return "it is made before the loss is scaled";
  if (root.lost) return "";
  const bool is_made = root.kind == RootKind::created && !op.nature.collective && !op.nature.uninitialised;
  if (is_made) {
    OpValues values(search.rank(), flow, op, root.tensor, search.health());
    const Cause cause = cause_of(values, root.bad);
    if (cause.pole) return "the true value is infinite";
    const std::optional<double> value = true_value(cause), scale = search.skips().scale;
    if (value && scale && std::isfinite(*value) && overflows(values.output_type(), *value / *scale)) {
      return fmt::format("with the scale 1 the value would be {}", number_text(*value / *scale));
    }
  }
  const RankSearch::Skips& skips = search.skips();
  if (!is_stuck(skips)) return "";
  return fmt::format("steps {} to {} were skipped one after another{}", skips.first_step, search.step().id.number,
                     skips.scale ? fmt::format(", the last at the scale {}", number_text(*skips.scale)) : "");
}

}  // namespace sonde
