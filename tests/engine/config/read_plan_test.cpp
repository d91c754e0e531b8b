// Reading the file itself: errors before the first byte is parsed, and dialects.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "plan/config/plan.h"
#include "verdict_case.h"

namespace sonde::test {
namespace {

namespace fs = std::filesystem;

class ReadPlan : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "sonde-config-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path write(const std::string& name, const std::string& text) {
    const fs::path path = directory_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  fs::path good(const std::string& name) { return write(name, edited({}).json); }

  fs::path directory_;
};

std::string only_error(const fs::path& file) {
  const PlanResult result = read_plan(file);
  EXPECT_FALSE(result.plan) << file;
  EXPECT_EQ(result.diagnostics.size(), 1U) << file;
  return result.diagnostics.empty() ? "" : result.diagnostics[0].message;
}

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

TEST_F(ReadPlan, ReadsAFile) {
  const PlanResult result = read_plan(good("data_dump.json"));
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->source, directory_ / "data_dump.json");
  EXPECT_EQ(result.plan->source_text, edited({}).json);
}

TEST_F(ReadPlan, TakesARelativeName) {
  good("data_dump.json");
  const fs::path before = fs::current_path();
  fs::current_path(directory_);
  const bool accepted = read_plan("data_dump.json").plan.has_value();
  fs::current_path(before);
  EXPECT_TRUE(accepted);
}

TEST_F(ReadPlan, WantsTheEndingJsonAfterTheLastDotOfThePath) {
  for (const char* name : {"a.b.json", ".json", "d.json/c.json"}) EXPECT_TRUE(read_plan(good(name)).plan) << name;
  EXPECT_TRUE(has(only_error(good("cfg.JSON")), "ends in \".JSON\"; allowed: .json"));
  EXPECT_TRUE(has(only_error(good("cfg.json.bak")), ".bak"));
  EXPECT_TRUE(has(only_error(good("cfg.jsonx")), ".jsonx"));
  EXPECT_TRUE(has(only_error(good("cfg.json ")), ".json \""));
  EXPECT_TRUE(has(only_error(good("x.y/json")), ".y/json"));
  EXPECT_TRUE(has(only_error(good("e.json/cfg")), ".json/cfg"));
  EXPECT_TRUE(has(only_error(good("json")), "no ending"));
}

TEST_F(ReadPlan, LooksAtTheNameBehindALink) {
  fs::create_symlink(good("real.json"), directory_ / "to_json.txt");
  fs::create_symlink(good("real.txt"), directory_ / "to_txt.json");
  EXPECT_TRUE(read_plan(directory_ / "to_json.txt").plan);
  EXPECT_TRUE(has(only_error(directory_ / "to_txt.json"), ".txt"));
}

TEST_F(ReadPlan, SaysWhyAFileCannotBeRead) {
  EXPECT_TRUE(has(only_error(directory_ / "none.json"), "No such file"));
  EXPECT_TRUE(has(only_error(""), "empty"));
  fs::create_directories(directory_ / "dir.json");
  EXPECT_TRUE(has(only_error(directory_ / "dir.json"), "is a directory"));
  ASSERT_EQ(::mkfifo((directory_ / "pipe.json").c_str(), 0600), 0);
  EXPECT_TRUE(has(only_error(directory_ / "pipe.json"), "not a regular file"));
  EXPECT_TRUE(has(only_error("/dev/zero"), "not a regular file"));
  EXPECT_TRUE(has(only_error(directory_ / "none.json" / "x.json"), "No such file"));
}

TEST_F(ReadPlan, SaysThatAFileMayNotBeRead) {
  const fs::path file = good("secret.json");
  fs::permissions(file, fs::perms::none);
  fs::permissions(directory_, fs::perms::all);
  const uid_t user = ::geteuid();
  const uid_t reader = user == 0 ? 65534 : user;  // root may read everything
  ASSERT_EQ(::seteuid(reader), 0);
  const std::string message = only_error(file);
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_TRUE(has(message, "Permission denied"));
}

TEST_F(ReadPlan, RefusesAHugeFileWithoutReadingIt) {
  const fs::path file = good("huge.json");
  fs::resize_file(file, std::uintmax_t{1} << 40);  // sparse
  EXPECT_TRUE(has(only_error(file), "1099511627776 bytes"));
}

TEST_F(ReadPlan, RefusesWhatIsNotJson) {
  EXPECT_TRUE(has(only_error(write("a.json", "")), "empty"));
  EXPECT_TRUE(has(only_error(write("b.json", std::string("\x7F"
                                                         "ELF\0\0\xFF",
                                                         7))),
                  "not valid JSON"));
  EXPECT_TRUE(has(only_error(write("c.json", "\xFF\xFE{\0}\0")), "UTF-16"));
  EXPECT_TRUE(has(only_error(write("d.json", "[]")), "found [] at the top of the file"));
  EXPECT_TRUE(has(only_error(write("e.json", "null")), "allowed: an object"));
  EXPECT_TRUE(has(only_error(write("f.json", std::string(100'000, '['))), "nested"));
}

TEST_F(ReadPlan, ReadsAFileWithAByteOrderMarkAndOneWithTrailingText) {
  EXPECT_TRUE(read_plan(write("bom.json", "\xEF\xBB\xBF" + edited({}).json)).plan);
  const PlanResult trailing = read_plan(write("tail.json", edited({}).json + "xyz"));
  EXPECT_TRUE(trailing.plan);
  ASSERT_EQ(trailing.diagnostics.size(), 1U);
  EXPECT_TRUE(has(trailing.diagnostics[0].message, "\"xyz"));
}

TEST_F(ReadPlan, ReportsABadNameAndBadContentTogether) {
  const PlanResult result = read_plan(write("cfg.txt", edited({"c.dump_mode=7"}).json));
  EXPECT_EQ(result.diagnostics.size(), 2U);
}

TEST_F(ReadPlan, RecognisesADialectByItsOwnObject) {
  const auto dialect = [&](const std::string& text) {
    const PlanResult result = read_plan(write("config.json", text));
    for (const Diagnostic& diagnostic : result.diagnostics) EXPECT_FALSE(diagnostic.is_error) << diagnostic.message;
    return result.plan ? result.plan->dialect : "";
  };
  EXPECT_EQ(dialect(edited({}).json), "mindspore-2.x");
  EXPECT_EQ(dialect(edited({"s.version=\"1.3\"", "c.op_debug_mode=0"}).json), "mindspore-1.3");
  const std::string async = "async_dump_settings={\"enable\": true, \"op_debug_mode\": 0}";
  EXPECT_EQ(dialect(edited({"c.iteration=0", async}).json), "mindspore-1.2");
  EXPECT_EQ(dialect(edited({"c.iteration=0", "s.version=\"1.2\""}).json), "mindspore-1.2");
  EXPECT_EQ(dialect(R"({"DumpSettings": {"mode": 0, "path": "/d", "net_name": "N", "iteration": 0, "kernels": [],
                        "trans_flag": true, "enable": true}})"),
            "mindspore-1.0");
  EXPECT_EQ(dialect(R"({"dump": {"dump_path": ")" + directory_.string() + R"(", "dump_op_switch": "on"}})"), "acl");
  EXPECT_EQ(dialect(R"({"dump_config": {"enable_dump": true}})"), "torchair");
  EXPECT_EQ(dialect(edited({"dump={}"}).json), "mindspore-2.x");  // an unknown key of a good file
}

// A dump may be read on another machine than the one that wrote it.
TEST_F(ReadPlan, OfADumpKeepsPathsThatAreNotHere) {
  for (const char* text : {R"({"dump": {"dump_path": "/nowhere/x", "dump_op_switch": "on"}})",
                           R"({"dump_config": {"enable_dump": true, "dump_path": "/nowhere/x"}})"}) {
    const fs::path file = write("copy.json", text);
    EXPECT_FALSE(read_plan(file).plan) << text;
    const std::optional<Plan> plan = read_recorded_plan(file);
    ASSERT_TRUE(plan) << text;
    EXPECT_EQ(plan->path, "/nowhere/x");
  }
}

TEST_F(ReadPlan, OfADumpIsWhatTheFileSaysBesideMistakes) {
  const std::optional<Plan> plan =
      read_recorded_plan(write("copy", edited({"c.path=\"\"", "c.kernels=3", "c.op_debug_mode=2", "s.x=1"}).json));
  ASSERT_TRUE(plan);  // whatever the name of the file
  EXPECT_EQ(plan->op_debug_mode, 3U);
  for (const char* text : {"", "{", "[]", "3", "\xFF\xFE{"}) EXPECT_FALSE(read_recorded_plan(write("x", text))) << text;
  EXPECT_FALSE(read_recorded_plan(directory_ / "missing"));
}

TEST_F(ReadPlan, OfADumpDoesNotAskTheEnvironment) {
  const fs::path copy = write("copy.json", R"({"common_dump_settings": {}})");
  for (const char* name : {"SONDE_STOP_AFTER", "ENABLE_MS_GE_DUMP", "ENV_DUMP_IR_LINE_LEVEL"}) ::setenv(name, "1", 1);
  ::setenv("MS_DIAGNOSTIC_DATA_PATH", "/here", 1);
  ::setenv("MS_ACL_DUMP_CFG_PATH", copy.c_str(), 1);
  const std::optional<Plan> plan = read_recorded_plan(copy);
  for (const char* name : {"SONDE_STOP_AFTER", "ENABLE_MS_GE_DUMP", "ENV_DUMP_IR_LINE_LEVEL", "MS_DIAGNOSTIC_DATA_PATH",
                           "MS_ACL_DUMP_CFG_PATH"}) {
    ::unsetenv(name);
  }
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->sonde.stop_after);
  EXPECT_EQ(plan->sonde.layout, LayoutKind::mindspore_2_7);
  EXPECT_EQ(plan->source_lines, SourceLines::all);
  EXPECT_EQ(plan->path, "");
}

TEST_F(ReadPlan, TakesTheLastOfARepeatedKey) {
  std::string text = edited({}).json;
  text.insert(text.find("\"dump_mode\""), "\"dump_mode\": \"x\", ");
  const PlanResult good_last = read_plan(write("a.json", text));
  EXPECT_TRUE(good_last.plan);
  EXPECT_EQ(good_last.diagnostics.size(), 1U);
  text = edited({}).json;
  text.insert(text.find("\"path\""), "\"dump_mode\": \"x\", ");
  EXPECT_FALSE(read_plan(write("b.json", text)).plan);
}

}  // namespace
}  // namespace sonde::test
