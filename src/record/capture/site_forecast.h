// SiteForecast: what the plan can want of the ops of a site before one of them has run. For compiled graphs, which decide
// beforehand which values they keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plan/config/plan.h"
#include "plan/config/selector.h"
#include "record/writer/recorder.h"

namespace sonde {

// Not synchronised: its owner calls it under the session's lock.
class SiteForecast {
 public:
  // Both must outlive it.
  SiteForecast(const Plan& plan, Selector& selector) : plan_(plan), selector_(selector) {}
  void open(const Recorder& recorder) { layout_ = &recorder.layout(); }

  // Of the first `count` ops of a site: SONDE_WANT_*.
  std::uint32_t wants(const Site& site, std::uint32_t count);
  // Ops of the types in `by` ("mul, sum") compute the ops of this site. True: the plan selects it, and none of them.
  bool is_replaced(const Site& site, std::string_view by);

 private:
  std::uint32_t wants_of_every_op() const;
  bool names_one_of(const Site& site, std::string_view replaced_by);

  const Plan& plan_;
  Selector& selector_;
  const Layout* layout_ = nullptr;    // null before the first chosen step
  std::optional<Selector> forecast_;  // its answers do not count as hits of the plan's entries
};

}  // namespace sonde
