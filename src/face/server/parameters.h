// Parameters: the query of a request. Wrong values and unknown names are errors that name them.
//
//   Parameters parameters(request);
//   const std::uint64_t limit = parameters.number("limit", 200, 1000);
//   if (Status good = parameters.finish(); !good) return good.error();
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "face/server/message.h"
#include "plan/config/plan.h"
#include "read/catalog/catalog.h"

namespace sonde::server {

class Parameters {
 public:
  explicit Parameters(const Request& request) : query_(request.query) {}

  std::optional<std::string> text(std::string_view name);
  std::string required(std::string_view name);
  std::uint64_t number(std::string_view name, std::uint64_t otherwise, std::uint64_t most);
  std::optional<std::uint64_t> number(std::string_view name);
  std::optional<double> real(std::string_view name);
  std::string word(std::string_view name, std::string_view otherwise, std::initializer_list<std::string_view> words);
  StepSet steps(std::string_view name);

  // The first error; also a parameter that nobody asked for, or that is there twice.
  Status finish();

 private:
  void fail(std::string message);

  const Fields& query_;
  std::vector<std::string_view> known_;
  std::string error_;
};

// The parameters `rank`, `graph` and `step`.
struct Where {
  std::optional<std::string> rank;  // "0", or "0 of run7"
  std::optional<std::uint32_t> graph;
  StepSet steps = StepSet::all();

  static Where of(Parameters& parameters, std::string_view steps = "step");
  bool takes(const CatalogRank& of) const;
  bool takes(const CatalogRank& of, const CatalogStep& step) const;
};

}  // namespace sonde::server
