#include "plan/config/pattern.h"

#include <gtest/gtest.h>

#include <regex>

namespace sonde {
namespace {

const char* const kNames[] = {"",
                              "a",
                              "ab",
                              "aab",
                              "x-1",
                              "]",
                              "}",
                              "a\nb",
                              "Default/Add-op0",
                              "Default/network-Net/conv1-Conv2d/conv2d-op12",
                              "Gradients/Default/conv1-Conv2d/Grad_conv2d/convolution_backward-op0",
                              "conv1.weight",
                              "\xE7\xBD\x91",
                              "D_efault \t"};

// std::regex, which MindSpore uses, accepts these: both must give the same answers for every name.
const char* const kBothAccept[] = {
    "",
    ".*",
    "Default/.*",
    ".*conv2d-op[0-9]+",
    ".*-op\\d{1,2}",
    "conv1\\.weight",
    "conv1.weight",
    "(a|x-)+b?",
    "(?:a|x-1)*",
    "a{2}b",
    "a{1,2}b",
    "a{1,}b",
    "a*?b",
    "a{1}?b",
    "a**b",
    "a++b",
    "a{1}{2}b",
    "^a$|^ab$",
    "|a",
    "a|",
    "(|a)b",
    "]",
    "}",
    "[]",
    "[^]*",
    "[^/]*",
    "[a-]*",
    "[-a]*",
    "[--a]*",
    "[a-c-e]+",
    "[[:alpha:]/-]*[0-9]*",
    "[[:w:]./-]*",
    "[\\w./-]*",

    "[^\\W]*",
    "[\\d\\D]*",
    "\\w+",
    "\\W*",
    "\\s*\\S*",
    "\\bDefault\\b.*",
    ".*\\Befault.*",
    "\\x61b?",
    "\\u0061b?",
    "[\\x61-\\x62]*",
    "[\\b]*",
    "a\\nb",
    "a.b",
    "[[=a=]]b?",
    "[[.a.]]b?",
    "\\/*\\-*a",
    "D_efault \\t",
    "...",
    "[\xE7]..",
    "((((a))))",
};

TEST(Pattern, AnswersAsStdRegexDoes) {
  for (const char* expression : kBothAccept) {
    const std::regex reference(expression);
    const Result<Pattern> pattern = Pattern::compile(expression);
    ASSERT_TRUE(pattern) << expression << ": " << pattern.error().message;
    for (const char* name : kNames) {
      EXPECT_EQ(pattern->matches(name), std::regex_match(name, reference)) << expression << " on " << name;
    }
  }
}

// An expression for which std::regex throws is an error here too.
TEST(Pattern, RefusesWhatStdRegexRefuses) {
  for (const char* expression :
       {"[",       "[a-",      "(",        "()(",     ")",           "a)",        "*",          "+a",    "?",
        "a|*",     "(*a)",     "{",        "{1}",     "a{",          "a{,2}",     "a{1",        "a{1,2", "a{2,1}",
        "a{x}",    "a{99999}", "[z-a]",    "[a-\\d]", "[[:bogus:]]", "[[:alpha:", "[[:alpha:]", "(?i)a", "(?<=a)b",
        "(?<!a)b", "(?<n>a)",  "(?P<n>a)", "(?",      "^*a",         "$*",        "\\"}) {
    EXPECT_THROW(std::regex{expression}, std::regex_error) << expression;
    EXPECT_FALSE(Pattern::compile(expression)) << expression;
  }
}

TEST(Pattern, NamesWhatItCannotDoInLinearTime) {
  const auto message = [](const char* expression) {
    const Result<Pattern> pattern = Pattern::compile(expression);
    EXPECT_FALSE(pattern) << expression;
    EXPECT_EQ(pattern.error().code, ErrorCode::unsupported);
    return pattern.error().message;
  };
  EXPECT_NE(message("a(?=b)").find("look-ahead '(?='"), std::string::npos);
  EXPECT_NE(message("a(?=b)").find("character 2"), std::string::npos);
  EXPECT_NE(message("(?!b).*").find("look-ahead '(?!'"), std::string::npos);
  EXPECT_NE(message("(a)\\1").find("back-reference '\\1'"), std::string::npos);
  EXPECT_NE(message("a{1001}").find("1000"), std::string::npos);
}

TEST(Pattern, DoesNotTakeWhatOnlyRe2OrPerlUnderstand) {
  for (const char* expression :
       {"(?i)a", "(?s:.)", "\\Aa", "a\\z", "\\pL", "\\Qa\\E", "\\C", "\\a", "(?P<n>a)", "(?P=n)"}) {
    const Result<Pattern> pattern = Pattern::compile(expression);
    ASSERT_FALSE(pattern) << expression;
    EXPECT_EQ(pattern.error().code, ErrorCode::invalid_argument) << expression;
  }
}

// JavaScript's reading; newer versions of libstdc++ refuse it, older ones do not.
TEST(Pattern, TakesADashAfterAClassAsItself) {
  const Result<Pattern> pattern = Pattern::compile("[\\w-z]*");
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->matches("a-b"));
  EXPECT_FALSE(pattern->matches("a/b"));
}

TEST(Pattern, MatchesOnlyWholeTexts) {
  const Result<Pattern> pattern = Pattern::compile("Add");
  EXPECT_TRUE(pattern->matches("Add"));
  EXPECT_FALSE(pattern->matches("Default/Add-op0"));
  EXPECT_FALSE(pattern->matches("add"));
}

TEST(Pattern, EndsOnExpressionsThatMakeOthersRunForEver) {
  const Result<Pattern> pattern = Pattern::compile("(a+)+b");
  ASSERT_TRUE(pattern);
  EXPECT_FALSE(pattern->matches(std::string(100'000, 'a')));
  EXPECT_FALSE(Pattern::compile("((a{1000}){1000}){1000}"));
  EXPECT_FALSE(Pattern::compile(std::string(200, '(') + std::string(200, ')')));
  EXPECT_FALSE(Pattern::compile(std::string(100'000, 'a')));
}

}  // namespace
}  // namespace sonde
