#include "dump/graph/source_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "train.py:8 forward"
std::vector<std::string> places(std::string_view comments, bool outermost_first) {
  std::vector<std::string> found;
  for (const TracedLine& line : parse_trace(comments, outermost_first)) {
    const std::string function = line.place.function.empty() ? "" : " " + line.place.function;
    found.push_back(line.place.file + ":" + std::to_string(line.place.line) + function);
  }
  return found;
}

TracedLine parsed(std::string_view line) {
  TracedLine out;
  EXPECT_TRUE(parse_traced_line(line, out)) << line;
  return out;
}

TEST(SourceTrace, OfEveryVersionIsTakenApart) {
  const TracedLine newest = parsed("      # In file /a/train.py:8~10, 15~20/        return a / b/");
  EXPECT_EQ(newest.place, (SourceLine{"/a/train.py", "", 8, 15, 10, 20}));
  EXPECT_EQ(newest.text, "        return a / b");
  EXPECT_EQ(parsed("# In file /a/train.py(175)/x = y/").place.line, 175U) << "2.3";
  EXPECT_EQ(parsed("# In file /a/train.py:10/  text/").place.line, 10U) << "2.0";
  EXPECT_EQ(parsed("# inlined:In file /a/train.py:10/  text/").text, "  text") << "2.0, of a caller";
  EXPECT_EQ(parsed("#  - In file /a/train.py:10, 1~2/  text/").place.end_line, 10U) << "a candidate in .pb";
}

TEST(SourceTrace, SeparatesThePathFromTheText) {
  EXPECT_EQ(parsed("# In file /a:3/b/train.py:8, 1~2/d[1:2/3]/").place.file, "/a:3/b/train.py");
  EXPECT_EQ(parsed("# In file <cell>:8/f(7)/2/").place.file, "<cell>");
  EXPECT_EQ(parsed("# In file /a b/(1)/x.py:8/print(1)/").place.file, "/a b/(1)/x.py");
}

TEST(SourceTrace, LeavesOutWhatTheIrNotesBehindALine) {
  EXPECT_EQ(
      parsed(
          "# In file a.py:3, 1~2/  x = y/<~~This line of code can be shared by multiple nodes, and may be duplicated./")
          .text,
      "  x = y");
}

TEST(SourceTrace, PassesOverWhatIsNoLine) {
  TracedLine out;
  for (const char* line :
       {"", "#", "# In file", "# In file /a.py", "# In file /a.py:/x/", "# In file /a.py:x/y/",
        "# In file /a.py:99999999999/x/", "# In file :3/x/", "In file /a.py:3/x/", "# Corresponding"}) {
    EXPECT_FALSE(parse_traced_line(line, out)) << line;
  }
}

// As 2.10 writes it: the expression, the call around it, and the function with its name.
constexpr const char* kInnermostFirst =
    "      # In file /n/layer.py:807, 12~39/        x = self.matmul(x, self.weight)/\n"
    "      # In file /n/layer.py:803~815, 4~16/    def construct(self, x):/\n"
    "      # In file train.py:12, 69~79/        x = self.relu(self.fc(x))/\n"
    "      # In file train.py:12, 59~80/        x = self.relu(self.fc(x))/\n"
    "      # In file train.py:11~13, 4~97/    def forward(self, x):/\n"
    "      # In file train.py:30, 1~9/step()/\n";

TEST(SourceTrace, HasOneLinePerFunctionInnermostFirst) {
  EXPECT_THAT(places(kInnermostFirst, false),
              ElementsAre("/n/layer.py:807 construct", "train.py:12 forward", "train.py:30"));
}

TEST(SourceTrace, IsTurnedWhereTheOutermostStandsFirst) {
  EXPECT_THAT(places("# In file train.py:30, 1~9/step()/\n"
                     "# In file train.py:11~13, 4~97/    def forward(self, x):/\n"
                     "# In file train.py:12, 69~80/        x = self.relu(self.fc(x))/\n",
                     true),
              ElementsAre("train.py:12 forward", "train.py:30"));
}

TEST(SourceTrace, KeepsAFunctionThatCallsItself) {
  EXPECT_THAT(places("# In file a.py:2, 1~2/return f(x)/\n# In file a.py:1~2, 1~2/def f(x):/\n"
                     "# In file a.py:2, 1~2/return f(x)/\n# In file a.py:1~2, 1~2/def f(x):/\n",
                     false),
              ElementsAre("a.py:2 f", "a.py:2 f"));
}

TEST(SourceTrace, TakesTheFirstOfSeveralCandidates) {
  EXPECT_THAT(places("# Corresponding code candidate:\n#  - In file a.py:1, 1~2/a/\n#    In file b.py:2, 1~2/b/\n"
                     "#  - In file c.py:3, 1~2/c/\n",
                     false),
              ElementsAre("a.py:1", "b.py:2"));
  EXPECT_THAT(places("# Corresponding code candidate:\n# In file m.py:9, 1~2/m/\n# In file a.py:1, 1~2/a/\n"
                     "# In file m.py:9, 1~2/m/\n# In file c.py:3, 1~2/c/\n",
                     true),
              ElementsAre("a.py:1", "m.py:9"));
}

TEST(SourceTrace, OfNothingIsEmpty) {
  EXPECT_THAT(places("", false), IsEmpty());
  EXPECT_THAT(places("# Corresponding code candidate:\n# Corresponding forward node candidate:\n", true), IsEmpty());
}

}  // namespace
}  // namespace sonde
