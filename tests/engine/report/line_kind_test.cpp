// Marks of lines, for colours.
#include "face/report/line_kind.h"

#include <gtest/gtest.h>

#include <string>

namespace sonde {
namespace {

std::string kinds_of(std::string_view text) {
  std::string kinds;
  for_each_line(text, [&](LineKind kind, std::string_view) { kinds += std::to_string(static_cast<int>(kind)); });
  return kinds;
}

TEST(LineKind, IsThatOfTheMarkAndNotOfTheWords) {
  const std::string text =
      marked(LineKind::bad, "first bad: x\n  where\n") + marked(LineKind::here, "next:\n") + "  a\n";
  EXPECT_EQ(kinds_of(text), "1040");
  EXPECT_EQ(kinds_of("first bad: x\nnothing wrong\nnext:\n"), "000");
  EXPECT_EQ(without_marks(text), "first bad: x\n  where\nnext:\n  a\n");
}

TEST(LineKind, KeepsWhatIsNoMark) {
  for (const std::string_view text : {std::string_view(""), std::string_view("\n\n"), std::string_view("no end"),
                                      std::string_view("\001"), std::string_view("\001\011 a\n")}) {
    EXPECT_EQ(without_marks(text), text);
  }
}

}  // namespace
}  // namespace sonde
