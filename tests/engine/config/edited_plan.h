// What Sonde makes of the good configuration with edits (verdict_case.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "verdict_case.h"

namespace sonde::test {

// The test fails when it is refused.
inline Plan plan_with(const std::vector<std::string>& edits) {
  const PlanResult result = parse_edits(edits);
  EXPECT_TRUE(result.plan) << (result.diagnostics.empty() ? "" : text_of(result.diagnostics[0], "f"));
  return result.plan.value_or(Plan{});
}

// "error|warning KEY: MESSAGE" of every diagnostic.
inline std::vector<std::string> messages(const std::vector<std::string>& edits) {
  std::vector<std::string> texts;
  for (const Diagnostic& d : parse_edits(edits).diagnostics) {
    texts.push_back((d.is_error ? "error " : "warning ") + d.key + ": " + d.message);
  }
  return texts;
}

// Exactly one diagnostic is about it, and it begins and continues like this.
inline void expect_message(const std::vector<std::string>& edits, const std::string& start, const std::string& part) {
  const std::vector<std::string> texts = messages(edits);
  const auto fits = [&](const std::string& text) { return text.starts_with(start) && text.find(part) != text.npos; };
  EXPECT_EQ(std::ranges::count_if(texts, fits), 1) << start << " … " << part << "\n" << testing::PrintToString(texts);
}

}  // namespace sonde::test
