// The focus of a report: its steps, and the operators that first-bad and compare name.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/served_answers.h"
#include "face/server/html_report.h"
#include "face/server/message.h"
#include "plan/config/plan.h"
#include "sonde/answers.h"
#include "sonde/result.h"

namespace sonde::server {

// A step of a rank and a graph in a dump.
struct Place {
  std::size_t dump = 0;
  std::string rank;
  std::uint64_t graph = 0, step = 0;
  auto operator<=>(const Place&) const = default;

  Fields query() const {
    return {{"dump", std::to_string(dump)},
            {"rank", rank},
            {"graph", std::to_string(graph)},
            {"step", std::to_string(step)}};
  }
};

struct FocusOp {
  Place place;
  std::string op_name;
  auto operator<=>(const FocusOp&) const = default;
};

// The answers of first-bad and compare, and the overviews of the target and of golden.
struct ReportFocus {
  const HtmlReportOptions& options;
  const std::vector<Overview>& overviews;
  const FirstBad& first_bad;
  const Comparison& comparison;  // empty: there is one dump

  // The chosen steps of the target, that of the finding first. Fails if the dump has none of them.
  Result<std::vector<Place>> places() const;
  std::vector<FocusOp> suspects() const;

 private:
  using GraphStep = std::pair<std::uint64_t, std::uint64_t>;
  std::vector<GraphStep> chosen_steps(const StepSet& wanted) const;
};

// The part of a tensor that a report contains, as NumPy writes it: the last two axes around the element `at` (empty: the first
// one), at most kWindow rows and columns of them.
inline constexpr std::uint64_t kWindow = 64;
std::string slice_of(const std::vector<std::uint64_t>& shape, const std::optional<std::vector<std::int64_t>>& at);

}  // namespace sonde::server
