#include "plan/config/dump_settings.h"

#include <algorithm>

#include "plan/config/plan.h"

namespace sonde {

void DumpSettings::add(const DumpSettings& other) {
  only_overflows = only_overflows || other.only_overflows;
  overflow_number = std::max(overflow_number, other.overflow_number);
  only_exceptions = only_exceptions || other.only_exceptions;
  inputs_after = inputs_after || other.inputs_after;
  reread = reread || other.reread;
}

DumpSettings settings_of(const Plan& plan) {
  return {.only_overflows = plan.overflow_only(),
          .overflow_number = plan.overflow_only() ? static_cast<std::uint32_t>(plan.overflow_number) : 0,
          .only_exceptions = plan.exception_only(),
          .inputs_after = plan.sonde.inputs_after,
          .reread = plan.sonde.reread};
}

}  // namespace sonde
