#include "plan/config/json.h"

#include <gtest/gtest.h>

#include "plan/config/diagnostics.h"

namespace sonde {
namespace {

struct Parsed {
  std::optional<JsonValue> root;
  std::vector<Diagnostic> diagnostics;
};

Parsed parsed(std::string_view text, const JsonLimits& limits = {}) {
  Diagnostics diagnostics;
  Parsed result;
  result.root = parse_json(text, diagnostics, limits);
  result.diagnostics = diagnostics.take();
  return result;
}

// The one diagnostic of a text that cannot be parsed.
Diagnostic only_error(std::string_view text, const JsonLimits& limits = {}) {
  const Parsed result = parsed(text, limits);
  EXPECT_FALSE(result.root) << text;
  EXPECT_EQ(result.diagnostics.size(), 1U) << text;
  return result.diagnostics.empty() ? Diagnostic{} : result.diagnostics[0];
}

TEST(Json, KnowsTheLineOfEveryKeyAndValue) {
  const Parsed result = parsed("\n{\n \"a\": 1,\n \"b\":\n  2\n,\"c\": [3,\n{\"d\": \"x\"},\n-4\n]}\n");
  ASSERT_TRUE(result.root);
  EXPECT_EQ(result.root->line, 2U);
  EXPECT_EQ(result.root->find("a")->line, 3U);
  EXPECT_EQ(result.root->find("a")->value.line, 3U);
  EXPECT_EQ(result.root->find("b")->line, 4U);
  EXPECT_EQ(result.root->find("b")->value.line, 5U);
  const JsonValue& c = result.root->find("c")->value;
  EXPECT_EQ(c.items[0].line, 6U);
  EXPECT_EQ(c.items[1].line, 7U);
  EXPECT_EQ(c.items[1].find("d")->line, 7U);
  EXPECT_EQ(c.items[2].line, 8U);
}

TEST(Json, CountsLinesOfWindowsFiles) {
  const Parsed result = parsed("{\r\n\"a\": 1\r\n,\"b\": 2}");
  EXPECT_EQ(result.root->find("b")->line, 3U);
}

TEST(Json, DistinguishesTheKindsOfNumbers) {
  const Parsed result = parsed("[0, 18446744073709551615, 18446744073709551616, -1, -0, 1.0, 1e2]");
  using Kind = JsonValue::Kind;
  const Kind kinds[] = {Kind::unsigned_integer, Kind::unsigned_integer, Kind::floating, Kind::negative_integer,
                        Kind::negative_integer, Kind::floating,         Kind::floating};
  ASSERT_EQ(result.root->items.size(), std::size(kinds));
  for (std::size_t i = 0; i < std::size(kinds); ++i) EXPECT_EQ(result.root->items[i].kind, kinds[i]) << i;
  EXPECT_EQ(result.root->items[1].number, UINT64_MAX);
  EXPECT_EQ(spelled(result.root->items[2]), "18446744073709551616");
  EXPECT_EQ(spelled(result.root->items[4]), "-0");
  EXPECT_EQ(spelled(result.root->items[5]), "1.0");
}

TEST(Json, KeepsTheLastOfARepeatedKeyAndWarns) {
  const Parsed result = parsed("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}");
  ASSERT_TRUE(result.root);
  EXPECT_EQ(result.root->members.size(), 2U);
  EXPECT_EQ(result.root->find("a")->value.number, 3U);
  ASSERT_EQ(result.diagnostics.size(), 1U);
  EXPECT_FALSE(result.diagnostics[0].is_error);
  EXPECT_EQ(result.diagnostics[0].line, 3U);
  EXPECT_EQ(result.diagnostics[0].key, "a");
  EXPECT_NE(result.diagnostics[0].message.find("line 1"), std::string::npos);
}

TEST(Json, NamesTheLineOfASyntaxError) {
  EXPECT_EQ(only_error("{\n\"a\": 1,\n}").line, 3U);
  EXPECT_EQ(only_error("{\n\"a\": 1\n\"b\": 2}").line, 3U);
  EXPECT_EQ(only_error("{\n\"a\": tru}").line, 2U);
  EXPECT_EQ(only_error("// comment\n{}").line, 1U);
  EXPECT_EQ(only_error("{\n'a': 1}").line, 2U);
  EXPECT_NE(only_error("{\n\"a\": tru}").message.find("column 9"), std::string::npos);
}

TEST(Json, SaysThatAnEmptyFileIsEmpty) { EXPECT_NE(only_error("").message.find("empty"), std::string::npos); }

TEST(Json, RefusesBrokenTextOfEveryKind) {
  for (const std::string_view text :
       {std::string_view(" \n"), std::string_view("{"), std::string_view("[1,"), std::string_view("\"abc"),
        std::string_view("{\"a\": NaN}"), std::string_view("{\"a\": 01}"), std::string_view("{\"a\": \"\t\"}"),
        std::string_view("{\"a\": \"\\ud800\"}"), std::string_view("{\"a\": \"\xFF\"}"), std::string_view("\0\xFF", 2),
        std::string_view("{\"a\": 1e999}"), std::string_view("{\"a\" 1}"), std::string_view("\xEF\xBB{}")}) {
    const Diagnostic error = only_error(text);
    EXPECT_TRUE(error.is_error);
    EXPECT_GT(error.line, 0U);
  }
}

TEST(Json, ShowsNoControlCharactersOrBrokenBytesInAMessage) {
  for (const std::string_view text : {std::string_view("{\"a\x01\": 1}"), std::string_view("{\"\xFF\x1B[31m\": 1}")}) {
    for (const char c : only_error(text).message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << text;
  }
  EXPECT_EQ(in_quotes("a\nb\x1B\xFF"), "\"a\\nb\\x1b\\xff\"");
  EXPECT_EQ(in_quotes("\xE7\xBD\x91"), "\"\xE7\xBD\x91\"");
  EXPECT_LT(in_quotes(std::string(5000, 'a')).size(), 80U);
}

TEST(Json, SkipsAByteOrderMark) {
  const Parsed result = parsed("\xEF\xBB\xBF{\"a\": 1}");
  EXPECT_TRUE(result.root);
  EXPECT_TRUE(result.diagnostics.empty());
}

TEST(Json, WarnsOfTextAfterTheValue) {
  const Parsed result = parsed("{}\n\n xyz");
  EXPECT_TRUE(result.root);
  ASSERT_EQ(result.diagnostics.size(), 1U);
  EXPECT_FALSE(result.diagnostics[0].is_error);
  EXPECT_EQ(result.diagnostics[0].line, 3U);
  EXPECT_TRUE(parsed("{} \r\n\t").diagnostics.empty());
}

TEST(Json, BoundsDepthSizeAndNumberOfValues) {
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  EXPECT_NE(only_error(deep).message.find("nested"), std::string::npos);
  EXPECT_TRUE(parsed(deep.substr(1, 128)).root);
  EXPECT_NE(only_error(std::string(1'000'000, '[')).message.find("nested"), std::string::npos);
  EXPECT_NE(only_error("[1,2,3]", {.bytes = 6}).message.find("bytes"), std::string::npos);
  EXPECT_NE(only_error("[1,2,3]", {.values = 3}).message.find("values"), std::string::npos);
  EXPECT_TRUE(parsed("[1,2]", {.values = 3}).root);
}

TEST(Json, WritesCompactTextAsMindSporeDoes) {
  const Parsed result = parsed("[\"a\\\"b\\\\d\\u0001\", null, [1, {\"k\": false}], 1.5]");
  EXPECT_EQ(compact(*result.root), "[\"a\\\"b\\\\d\\u0001\",null,[1,{\"k\":false}],1.5]");
}

TEST(Diagnostics, KeepsABoundedNumberInFileOrder) {
  Diagnostics diagnostics;
  for (std::size_t i = 0; i < 1000; ++i) diagnostics.warning(1000 - i, "k", "m");
  diagnostics.error(0, "k", "whole file");
  const std::vector<Diagnostic> kept = diagnostics.take();
  ASSERT_EQ(kept.size(), Diagnostics::kMost + 2);
  EXPECT_EQ(kept[0].message, "whole file");
  EXPECT_LT(kept[1].line, kept[2].line);
  EXPECT_EQ(kept.back().message, "800 more of the same kind are not shown");
}

TEST(JsonText, OfAMessageCommandsNoTerminal) {
  EXPECT_EQ(in_quotes("a\x1b[2J\r\n"), "\"a\\x1b[2J\\r\\n\"");
  EXPECT_EQ(in_quotes("\xC2\x9B\xE2\x80\xAE"), "\"\\u009b\\u202e\"") << "a control of one byte, a mark of direction";
  EXPECT_EQ(in_quotes("\xFFz"), "\"\\xffz\"");
  EXPECT_EQ(in_quotes("é"), "\"é\"");
}

}  // namespace
}  // namespace sonde
