#include "ground/base/text.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace sonde {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Split, LeavesOutAnEmptyPartAtTheEndAlone) {
  EXPECT_EQ(split("a|bc|d", '|'), (Parts{"a", "bc", "d"}));
  EXPECT_EQ(split("a\n\nb\n", '\n'), (Parts{"a", "", "b"}));
  EXPECT_EQ(split("|a", '|'), (Parts{"", "a"}));
  EXPECT_EQ(split("a", '|'), Parts{"a"});
  EXPECT_EQ(split("|", '|'), Parts{""});
  EXPECT_TRUE(split("", '|').empty());
}

TEST(FieldsIn, AreOneMoreThanSeparators) {
  EXPECT_EQ(fields_in("a.b.", '.'), (Parts{"a", "b", ""}));
  EXPECT_EQ(fields_in("..", '.'), (Parts{"", "", ""}));
  EXPECT_EQ(fields_in("", '.'), Parts{""});
}

}  // namespace
}  // namespace sonde
