// Every configuration of verdicts.txt, compared with MindSpore's observed behaviour.
#include <gtest/gtest.h>

#include <algorithm>

#include "verdict_case.h"

namespace sonde::test {
namespace {

std::string all_text(const PlanResult& result) {
  std::string text;
  for (const Diagnostic& diagnostic : result.diagnostics) text += text_of(diagnostic, "f") + "\n";
  return text;
}

// "c.dump_mode=1" -> "common_dump_settings.dump_mode"; empty unless exactly one key is changed.
std::string changed_key(const VerdictCase& one) {
  if (one.edits.size() != 1 || one.edits[0].starts_with('-')) return "";
  const std::string key = one.edits[0].substr(0, one.edits[0].find('='));
  if (key.starts_with("c.")) return "common_dump_settings" + key.substr(1);
  if (key.starts_with("e.")) return "e2e_dump_settings" + key.substr(1);
  return "";
}

TEST(Verdicts, AreThoseListedAndThereAreMany) {
  const std::vector<VerdictCase> cases = read_verdicts(SONDE_VERDICTS);
  EXPECT_GT(cases.size(), 700U);
  for (const VerdictCase& one : cases) {
    const PlanResult result = parse_edits(one.edits);
    EXPECT_EQ(result.plan.has_value(), one.sonde_accepts) << one.text << "\n" << all_text(result);
    if (result.plan && one.sonde_files >= 0) {
      EXPECT_EQ(files_of(*result.plan), one.sonde_files) << one.text;
    }
  }
}

// The list must not differ from MindSpore's without notice: the text of the case gives the reason for each difference.
TEST(Verdicts, DifferFromMindSporeOnlyWhereSondeDoesMoreOrRefusesAPattern) {
  const auto has = [](const VerdictCase& one, const char* text) { return one.text.find(text) != std::string::npos; };
  for (const VerdictCase& one : read_verdicts(SONDE_VERDICTS)) {
    if (one.sonde_accepts && !one.mindspore_accepts) {
      EXPECT_TRUE(has(one, "c.dump_mode=2") || has(one, "c.saved_data=\"statistic\"") ||
                  has(one, "c.saved_data=\"full\"") || has(one, "\tc.iteration="))
          << one.text;
    } else if (!one.sonde_accepts && one.mindspore_accepts) {
      EXPECT_TRUE(has(one, "name-regex(") || has(one, "sonde_settings")) << one.text;
    } else if (one.sonde_files != one.mindspore_files) {
      EXPECT_TRUE(has(one, "\\\\") || has(one, "c.initial_iteration=18446744073709551615")) << one.text;
    }
  }
}

TEST(Verdicts, NameTheKeyAndItsLineWhereOneKeyIsWrong) {
  std::size_t checked = 0;
  for (const VerdictCase& one : read_verdicts(SONDE_VERDICTS)) {
    const std::string key = changed_key(one);
    if (key.empty() || one.sonde_accepts) continue;
    const PlanResult result = parse_edits(one.edits);
    const std::size_t line = edited(one.edits).lines.at(key);
    const auto is_named = [&](const Diagnostic& d) {
      const bool is_syntax = d.key.empty();  // found at the value, or at the next token
      return d.is_error &&
             (is_syntax ? d.line == line || d.line == line + 1 : d.key.starts_with(key) && d.line == line);
    };
    EXPECT_TRUE(std::any_of(result.diagnostics.begin(), result.diagnostics.end(), is_named))
        << one.text << "\nline " << line << "\n"
        << all_text(result);
    ++checked;
  }
  EXPECT_GT(checked, 200U);
}

TEST(Verdicts, SayWhatWasFoundAndWhatIsAllowed) {
  for (const VerdictCase& one : read_verdicts(SONDE_VERDICTS)) {
    const PlanResult result = parse_edits(one.edits);
    for (const Diagnostic& diagnostic : result.diagnostics) {
      if (!diagnostic.is_error || diagnostic.key.empty()) continue;
      const std::string& message = diagnostic.message;
      EXPECT_TRUE(message.find("allowed: ") != message.npos || message.find("needed: ") != message.npos ||
                  diagnostic.key.starts_with("sonde_settings"))
          << one.text << "\n"
          << message;
    }
  }
}

}  // namespace
}  // namespace sonde::test
