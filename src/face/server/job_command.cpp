// The command line of a job, of the arguments that a request gives it.
#include <fmt/format.h>

#include <algorithm>

#include "contract/jobs.h"
#include "face/server/jobs.h"
#include "ground/base/json.h"

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
      add(text_of_json(value));
      return {};
    case JobType::number:
      if (!value.is_number()) return wrong_argument(option.argument, "a number");
      add(text_of_json(value));
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

Result<std::vector<std::string>> job_command(JobKind kind, const Json& arguments,
                                             const std::vector<std::filesystem::path>& dumps) {
  if (!arguments.is_object()) return wrong_argument("arguments", "an object");
  std::vector<std::string> command = {kind == JobKind::next_config ? "first-bad"
                                      : kind == JobKind::measure   ? "stats"
                                                                   : std::string(word_of(kind))};
  std::size_t dump = 0;
  if (arguments.contains("dump")) {
    if (!arguments["dump"].is_number_unsigned()) return wrong_argument("dump", "a number, 0 or more");
    dump = arguments["dump"].get<std::size_t>();
  }
  if (dump >= dumps.size()) return Error{ErrorCode::not_found, fmt::format("there is no dump {}", dump)};
  const bool has_golden = kind == JobKind::report && arguments.contains("golden") && arguments["golden"] == Json(true);
  if ((kind == JobKind::compare || has_golden) && dumps.size() < 2) {
    return Error{ErrorCode::invalid_argument,
                 "there is nothing to compare with: start `sonde serve TARGET GOLDEN` with two dumps"};
  }
  if (kind == JobKind::compare) {
    command.push_back(dumps[0].string());
    command.push_back(dumps[1].string());
  } else {
    command.push_back(dumps[dump].string());
  }
  if (kind == JobKind::report) command.emplace_back("--html=report.html");
  if (kind == JobKind::next_config) command.emplace_back("--next-config=next.json");
  if (has_golden) command.push_back("--golden=" + dumps[dump == 0 ? 1 : 0].string());
  command.emplace_back("--json");
  for (const auto& [name, value] : arguments.items()) {
    if (name == "dump" && kind != JobKind::compare) continue;
    if (name == "golden" && kind == JobKind::report && value.is_boolean()) continue;
    if (name == "mapping" && kind == JobKind::compare) {
      if (!value.is_string()) return wrong_argument(name, "the text of a mapping file");
      if (!value.get_ref<const std::string&>().empty()) command.push_back(std::string(kMappingOption) + "mapping.txt");
      continue;
    }
    const auto* option = std::ranges::find_if(kJobOptions, [&, &wanted = name](const JobOption& one) {
      return one.verb == command.front() && one.argument == wanted && kind != JobKind::measure;
    });
    if (option == std::end(kJobOptions)) {
      return Error{ErrorCode::invalid_argument, fmt::format("a job '{}' has no argument '{}'", word_of(kind), name)};
    }
    if (Status good = add_option(*option, value, command); !good) return good.error();
  }
  return command;
}

}  // namespace sonde::server
