// CANN's acl.json: CANN's error messages, word for word, and the parts used by more than one file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plan/config/json.h"
#include "plan/config/plan.h"

namespace sonde {
class Diagnostics;

// Error messages as CANN words them, with its codes. An item is a key as CANN calls it: `dump_list[0].layer`.
class AclComplaints {
 public:
  AclComplaints(std::string file, Diagnostics& diagnostics) : file_(std::move(file)), diagnostics_(diagnostics) {}

  void content(std::size_t line, const std::string& item, std::string_view reason);  // EP0001
  // EP0002; `options` sorted and joined by '/'
  void not_among(std::size_t line, const std::string& item, std::string_view value,
                 std::vector<std::string_view> options);
  void value(std::size_t line, const std::string& item, std::string_view value, std::string_view reason);  // EP0003
  void unparsable(std::size_t line, std::string_view reason);                                              // EP0004
  // EP0005. "When configuration item A is set to V, configuration item B cannot be ..."
  void conflict(std::size_t line, const std::string& item, std::string_view reason);
  void warning(std::size_t line, const std::string& item, std::string message);

 private:
  std::string file_;
  Diagnostics& diagnostics_;
};

// The entries of `dump_list`, types and values; for restrictions by other items see check_dump_list().
std::vector<DumpListEntry> read_dump_list(const JsonValue& list, AclComplaints& complaints);
void check_dump_list(const JsonValue& list, const Plan& plan, AclComplaints& complaints);

// Reports a malformed `dump_step`: at most 100 parts, each a number or an interval.
void check_dump_step(std::string_view text, std::size_t line, AclComplaints& complaints);

// The meaning of `dump_data` "stats" without `dump_stats`: everything but L2norm, in CANN's order.
std::vector<Category> default_acl_statistics();
// Relative to the working directory, normalised, without a slash at the end.
std::filesystem::path absolute_directory(const std::string& path);

}  // namespace sonde
