// The command line of a job, of the arguments that a request gives it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "contract/jobs.h"
#include "face/server/jobs.h"

namespace sonde::server {
namespace {

Error wrong_argument(std::string_view name, std::string_view expected) {
  return Error{ErrorCode::invalid_argument, fmt::format("the job's argument '{}': expected {}", name, expected)};
}

bool is_text(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().find('\0') == std::string::npos;
}

// Appends the option with its value, as one word: a value that begins with `-` stays a value.
Status add_option(const JobOption& option, const Json& value, std::vector<std::string>& command) {
  const auto add = [&](const std::string& text) { command.push_back(fmt::format("{}={}", option.option, text)); };
  switch (option.type) {
    case JobType::flag:
      if (!value.is_boolean()) return wrong_argument(option.argument, "true or false");
      if (value.get<bool>()) command.emplace_back(option.option);
      return {};
    case JobType::text:
      if (!is_text(value)) return wrong_argument(option.argument, "a text");
      if (!value.get_ref<const std::string&>().empty()) add(value.get<std::string>());
      return {};
    case JobType::count:
      if (!value.is_number_unsigned()) return wrong_argument(option.argument, "a number, 0 or more");
      add(value.dump());
      return {};
    case JobType::number:
      if (!value.is_number()) return wrong_argument(option.argument, "a number");
      add(value.dump());
      return {};
    case JobType::texts:
      if (!value.is_array() || !std::ranges::all_of(value, is_text)) {
        return wrong_argument(option.argument, "a list of texts");
      }
      for (const Json& entry : value) add(entry.get<std::string>());
      return {};
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> job_command(const std::string& kind, const Json& arguments,
                                             const std::vector<std::filesystem::path>& dumps) {
  constexpr std::array<std::string_view, 7> kKinds = {"first-bad", "compare", "watch",      "stomp",
                                                      "measure",   "report",  "next-config"};
  if (std::ranges::find(kKinds, kind) == kKinds.end()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("there is no job '{}'; there are {}", kind, fmt::join(kKinds, ", "))};
  }
  if (!arguments.is_object()) return wrong_argument("arguments", "an object");
  std::vector<std::string> command = {kind == "next-config" ? "first-bad" : kind == "measure" ? "stats" : kind};
  std::size_t dump = 0;
  if (arguments.contains("dump")) {
    if (!arguments["dump"].is_number_unsigned()) return wrong_argument("dump", "a number, 0 or more");
    dump = arguments["dump"].get<std::size_t>();
  }
  if (dump >= dumps.size()) return Error{ErrorCode::not_found, fmt::format("there is no dump {}", dump)};
  const bool has_golden = kind == "report" && arguments.contains("golden") && arguments["golden"] == Json(true);
  if ((kind == "compare" || has_golden) && dumps.size() < 2) {
    return Error{ErrorCode::invalid_argument,
                 "there is nothing to compare with: start `sonde serve TARGET GOLDEN` with two dumps"};
  }
  if (kind == "compare") {
    command.push_back(dumps[0].string());
    command.push_back(dumps[1].string());
  } else {
    command.push_back(dumps[dump].string());
  }
  if (kind == "report") command.emplace_back("--html=report.html");
  if (kind == "next-config") command.emplace_back("--next-config=next.json");
  if (has_golden) command.push_back("--golden=" + dumps[dump == 0 ? 1 : 0].string());
  command.emplace_back("--json");
  for (const auto& [name, value] : arguments.items()) {
    if (name == "dump" && kind != "compare") continue;
    if (name == "golden" && kind == "report" && value.is_boolean()) continue;
    if (name == "mapping" && kind == "compare") {
      if (!value.is_string()) return wrong_argument(name, "the text of a mapping file");
      if (!value.get_ref<const std::string&>().empty()) command.push_back(std::string(kMappingOption) + "mapping.txt");
      continue;
    }
    const auto* option = std::ranges::find_if(kJobOptions, [&, &wanted = name](const JobOption& one) {
      return one.verb == command.front() && one.argument == wanted && kind != "measure";
    });
    if (option == std::end(kJobOptions)) {
      return Error{ErrorCode::invalid_argument, fmt::format("a job '{}' has no argument '{}'", kind, name)};
    }
    if (Status good = add_option(*option, value, command); !good) return good.error();
  }
  return command;
}

}  // namespace sonde::server
