#include "ask/prove/digests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ground/base/json.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNothing = "nothing: the run had ended";

std::set<std::string> streams_in(const fs::path& directory) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (entry.path().extension() == ".digests") names.insert(entry.path().stem().string());
  return names;
}

// [kind, name, description, digest]
std::string field(const Json& value, std::size_t i) {
  return value.is_array() && i < value.size() && value[i].is_string() ? value[i].get<std::string>() : "";
}

std::string text_of(const Json& value) {
  const std::string description = field(value, 2);
  return description.empty() ? field(value, 3) : fmt::format("{}, {}", field(value, 3), description);
}

const Json& list(const Json& event, const char* name) {
  static const Json nothing = Json::array();
  const auto found = event.find(name);
  return found != event.end() && found->is_array() ? *found : nothing;
}

// The tensors that were skipped for a reason; sorted by reason.
std::uint64_t& skipped_for(const std::string& reason, RunsCompared& result) {
  const auto at = std::ranges::lower_bound(result.skipped, reason, {}, &NamedValue<std::uint64_t>::name);
  if (at != result.skipped.end() && at->name == reason) return at->value;
  return result.skipped.insert(at, {reason, 0})->value;
}

void count(const Json& event, RunsCompared& result) {
  ++result.events;
  if (event.value("event", "") == "step") ++result.steps;
  for (const Json& value : list(event, "values")) {
    if (field(value, 0) != "random state") ++result.tensors;
    if (std::string kind = field(value, 0); std::ranges::find(result.kinds, kind) == result.kinds.end())
      result.kinds.push_back(std::move(kind));
  }
  for (const Json& value : list(event, "skipped")) ++skipped_for(field(value, 2), result);
}

// Finds the place where two lines begin to differ.
RunDifference difference_of(const std::string& first, const std::string& second) {
  RunDifference result;
  const Json a = json_of_text(first), b = json_of_text(second);
  if (!a.is_object() || !b.is_object()) {
    const Json& whole = a.is_object() ? a : b;
    result.place = whole.is_object() ? whole.value("place", "") : "";
    result.first = a.is_object() ? result.place : kNothing;
    result.second = b.is_object() ? result.place : kNothing;
    return result;
  }
  result.place = a.value("place", "");
  result.first = result.place;
  result.second = b.value("place", "");
  if (result.first != result.second) return result;
  const Json &values = list(a, "values"), &others = list(b, "values");
  for (std::size_t i = 0; i < std::max(values.size(), others.size()); ++i) {
    const Json value = i < values.size() ? values[i] : Json(), other = i < others.size() ? others[i] : Json();
    if (value == other) continue;
    const Json& named = value.is_null() ? other : value;
    result.kind = field(named, 0);
    result.name = field(named, 1);
    const bool same_name = field(value, 0) == field(other, 0) && field(value, 1) == field(other, 1);
    const auto text = [&](const Json& one) {
      if (one.is_null()) return std::string("nothing of that name");
      return same_name ? text_of(one) : fmt::format("{} {} {}", field(one, 0), field(one, 1), text_of(one));
    };
    result.first = text(value);
    result.second = text(other);
    return result;
  }
  result.first = text_of_json(list(a, "skipped"));
  result.second = text_of_json(list(b, "skipped"));
  return result;
}

void compare_stream(const std::string& name, const fs::path& first, const fs::path& second, RunsCompared& result) {
  std::ifstream a(first), b(second);
  for (std::size_t event = 0;; ++event) {
    std::string line, other;
    const bool more = static_cast<bool>(std::getline(a, line)), more_there = static_cast<bool>(std::getline(b, other));
    if (!more && !more_there) return;
    if (line == other) {
      if (const Json parsed = json_of_text(line); parsed.is_object()) count(parsed, result);
      continue;
    }
    RunDifference found = difference_of(line, other);
    found.process = name;
    found.event = event;
    const auto& known = result.first_difference;
    if (!known || std::tie(found.event, found.process) < std::tie(known->event, known->process))
      result.first_difference = std::move(found);
    return;
  }
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

using Characters = std::array<std::size_t, 256>;

// How often each occurs in a file.
Characters characters_of(const fs::path& file) {
  Characters characters{};
  std::ifstream stream(file, std::ios::binary);
  for (std::istreambuf_iterator<char> at(stream), end; at != end; ++at) ++characters[static_cast<unsigned char>(*at)];
  return characters;
}

// The lines of `a` that `b` does not have, in any place; then one number for each line that `b` has more.
std::vector<std::uint64_t> unmatched(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::map<std::string_view, std::size_t> left;
  for (const std::string& line : b) ++left[line];
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto found = left.find(a[i]);
    if (found == left.end() || found->second == 0) {
      numbers.push_back(i + 1);
    } else {
      --found->second;
    }
  }
  for (std::size_t i = a.size(); i < b.size(); ++i) numbers.push_back(i + 1);
  return numbers;
}

}  // namespace

RunsCompared compare_digests(const fs::path& first, const fs::path& second) {
  RunsCompared result;
  std::set<std::string> processes = streams_in(first);
  processes.merge(streams_in(second));
  result.processes.assign(processes.begin(), processes.end());
  for (const std::string& name : result.processes)
    compare_stream(name, first / (name + ".digests"), second / (name + ".digests"), result);
  return result;
}

StdoutCompared compare_output(const fs::path& first, const fs::path& second, bool any_order) {
  const std::vector<std::string> a = lines_of(first), b = lines_of(second);
  StdoutCompared result;
  result.lines = std::max(a.size(), b.size());
  if (any_order) {
    if (a == b) return result;
    const std::vector<std::uint64_t> without_match = unmatched(a, b);
    if (without_match.empty()) {
      result.reordered = Reordered::lines;
    } else if (characters_of(first) == characters_of(second)) {
      result.reordered = Reordered::characters;
    } else {
      result.different = without_match;
    }
    return result;
  }
  for (std::size_t i = 0; i < result.lines; ++i)
    if (i >= a.size() || i >= b.size() || a[i] != b[i]) result.different.push_back(i + 1);
  return result;
}

}  // namespace sonde
