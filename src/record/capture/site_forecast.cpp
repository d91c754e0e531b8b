#include "record/capture/site_forecast.h"

#include <algorithm>
#include <string>

#include "record/capture/tensor_reading.h"
#include "sonde/sonde.h"

namespace sonde {

// SONDE_WANT_* of every op, as far as its name does not matter; 0: that depends on the name.
std::uint32_t SiteForecast::wants_of_every_op() const {
  constexpr std::uint32_t kBoth = SONDE_WANT_INPUTS | SONDE_WANT_OUTPUTS;
  if (plan_.saved_data == SavedData::graph) return SONDE_WANT_STRUCTURE;
  const bool by_order = selector_.in_order() || selector_.follows_producers() || plan_.flags_matter();
  const bool by_name = plan_.chooses_by_name();
  const bool unknown = layout_ == nullptr || layout_->names().numbers_throughout();
  if (plan_.searches() || by_order || (by_name && unknown)) return kBoth | SONDE_WANT_CHECK;
  if (by_name) return 0;
  const std::uint32_t sides = plan_.input_output == Sides::inputs    ? SONDE_WANT_INPUTS
                              : plan_.input_output == Sides::outputs ? SONDE_WANT_OUTPUTS
                                                                     : kBoth;
  const bool bytes_each_time = layout_ != nullptr && ReadRules::has_bytes_each_time(plan_, *layout_);
  return sides | (bytes_each_time ? SONDE_WANT_CHECK : 0U);
}

std::uint32_t SiteForecast::wants(const Site& site, std::uint32_t count) {
  if (const std::uint32_t all = wants_of_every_op(); site.id == 0 || all != 0) return all;
  if (!forecast_) forecast_.emplace(plan_);
  std::uint32_t wanted = SONDE_WANT_CHECK;
  for (std::uint32_t number = 0; number < count; ++number) {
    const std::string name = layout_->names().op_name(site, number);
    const Selector::Wanted one = forecast_->decide_op({.op_name = name, .op_type = site.op_type, .scope = site.scope});
    wanted |= (one.inputs ? SONDE_WANT_INPUTS : 0U) | (one.outputs ? SONDE_WANT_OUTPUTS : 0U);
    if (one.inputs && one.outputs) break;
  }
  return wanted;
}

// Whether the plan names ops of this site, by whatever number.
bool SiteForecast::names_one_of(const Site& site, std::string_view replaced_by) {
  bool named = false;
  for (const std::uint32_t number : selector_.numbers_named()) {
    const std::string name = layout_->names().op_name(site, number);
    named = selector_.names({.op_name = name, .op_type = site.op_type, .scope = site.scope}, replaced_by) || named;
  }
  return named;
}

bool SiteForecast::is_replaced(const Site& site, std::string_view by) {
  if (layout_ == nullptr || site.id == 0) return layout_ != nullptr && !selector_.numbers_named().empty();
  Site part = site;
  for (std::string_view rest = by; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(", "), rest.size());
    part.op_type = rest.substr(0, comma);
    if (names_one_of(part, {})) return false;
    rest.remove_prefix(std::min(comma + 2, rest.size()));
  }
  return names_one_of(site, by);
}

}  // namespace sonde
