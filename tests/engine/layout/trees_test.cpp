// The three uses of the table of trees agree: a written path is read back, and messages and help show the same path.
#include "dump/layout/trees.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "dump/layout/layout.h"
#include "dump/layout/tree_places.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInModel = "Default/network-AlexNet/conv1-Conv2d/conv2d-op0";
constexpr const char* kOutside = "Default/add-op0";

// One directory of a run of rank 3 of 8 on device 1, in step 12.
struct Case {
  std::vector<const char*> layouts;
  TreeCase which;
  std::uint32_t graph;
  const char* path;  // below the path of the plan; TIME stands for the time of the run
  const char* op = kInModel;
};

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = {
      {{"mindspore-1.2"}, TreeCase::usual, 0, "Net/device_1/iteration_12"},
      {{"mindspore-1.2"}, TreeCase::later_graphs, 2, "Net/device_1/graph_2/iteration_12"},
      {{"mindspore-1.2-async"}, TreeCase::usual, 0, "device_1/Net_graph_0/0/12"},
      {{"mindspore-1.2-async"}, TreeCase::usual, 2, "device_1/Net_graph_2/2/12"},
      {{"mindspore-2.0", "mindspore-2.3", "mindspore-2.5", "mindspore-2.7"}, TreeCase::usual, 0, "rank_3/Net/0/12"},
      {{"mindspore-2.0", "mindspore-2.3", "mindspore-2.5", "mindspore-2.7"}, TreeCase::usual, 2, "rank_3/Net/2/12"},
      {{"mindspore-2.0", "mindspore-2.3", "mindspore-2.5"}, TreeCase::constants, 2, "rank_3/Net/2/constants"},
      {{"ge"}, TreeCase::usual, 0, "TIME/1/Net/0/12"},
      {{"ge"}, TreeCase::usual, 2, "TIME/1/Net/2/12"},
      {{"o0"}, TreeCase::usual, 0, "12/TIME/1/0"},
      {{"o0"}, TreeCase::usual, 2, "12/TIME/1/2"},
      {{"o2"}, TreeCase::usual, 0, "12/TIME/1/Net/0/0"},
      {{"o2"}, TreeCase::usual, 2, "12/TIME/1/Net/2/0"},
      {{"acl"}, TreeCase::usual, 0, "TIME/1/AlexNet/0/12"},
      {{"acl"}, TreeCase::usual, 2, "TIME/1/AlexNet/2/12"},
      {{"acl"}, TreeCase::no_model, 0, "TIME/1", kOutside},
      {{"acl"}, TreeCase::exceptions, 0, "extra-info/data-dump/1"},
      {{"torchair"}, TreeCase::usual, 0, "worldsize8_global_rank3/TIME/1/graph_1/1/12"},
      {{"torchair"}, TreeCase::usual, 2, "worldsize8_global_rank3/TIME/1/graph_3/3/12"},
  };
  return cases;
}

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [word, value] : words) {
    if (const std::size_t at = text.find(word); at != std::string::npos) text.replace(at, word.size(), value);
  }
  return text;
}

std::string time_of_run() {
  char text[32] = {};
  const std::time_t started = 1700000000;
  std::strftime(text, sizeof text, "%Y%m%d%H%M%S", std::localtime(&started));
  return text;
}

// One case: the layout that writes, the record, and the expected path.
struct Written {
  Written(const Case& of, const LayoutInfo& row, Release release) {
    Plan plan;
    plan.e2e = plan.enable = true;
    plan.sonde.layout = row.kind;
    plan.sonde.version = release;
    plan.path = "/dump";
    plan.net_name = "Net";
    if (of.which == TreeCase::exceptions) plan.acl.scene = Scene::exception_norm;
    RunInfo run;
    run.rank = 3;
    run.device = 1;
    run.world_size = 8;
    run.started = 1700000000;
    layout = Layout::make(plan, run);
    op.op_name = of.op;
    record.op = &op;
    record.step = {of.graph, 12};
    record.in_constants = of.which == TreeCase::constants;
    right = fs::path("/dump") / replaced(of.path, {{"TIME", time_of_run()}});
    path = (layout.rank_directory() / layout.directory_of(record)).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  Layout layout = Layout::make({}, {});
  OpName op{1, "conv2d", ""};
  NamedRecord record;
  fs::path path, right;
};

template <typename Check>
void for_each_case(const Check& check) {
  for (const Case& of : all_cases()) {
    for (const char* name : of.layouts) {
      const LayoutInfo& row = info(*layout_from_name(name));
      for (const ReleaseInfo& release : releases()) {
        if (release.release < row.oldest || row.newest < release.release) continue;
        SCOPED_TRACE(std::string(name) + " of " + std::string(release.name) + ": " + of.path);
        check(of, row.kind, Written(of, row, release.release));
      }
    }
  }
}

TEST(Trees, HaveACaseForEveryRow) {
  for (const Tree& tree : trees()) {
    for (const LayoutInfo& row : layouts()) {
      if (row.kind < tree.first || tree.last < row.kind) continue;
      const auto has = [&](const Case& of) {
        return of.which == tree.which && std::ranges::find(of.layouts, row.name) != of.layouts.end();
      };
      EXPECT_TRUE(std::ranges::any_of(all_cases(), has)) << row.name;
    }
  }
}

TEST(Trees, AreWritten) {
  for_each_case([](const Case&, LayoutKind, const Written& written) { EXPECT_EQ(written.path, written.right); });
}

TEST(Trees, HaveAPlaceForParametersBesideTheOpThatReadsThem) {
  for_each_case([](const Case&, LayoutKind, const Written& written) {
    const OpName parameter{2, "Parameter", "conv1.weight"};
    NamedRecord record = written.record;
    record.kind = RecordKind::parameter;
    record.op = &parameter;
    record.reader = &written.op;
    EXPECT_EQ(written.layout.directory_of(record), written.layout.directory_of(written.record));
  });
}

TEST(Trees, AreReadLevelByLevel) {
  for_each_case([](const Case& of, LayoutKind kind, const Written& written) {
    TreeValues values;
    const std::vector<std::string> names = names_in(written.right.lexically_relative("/dump"));
    const Tree& tree = tree_of(kind, of.which);
    ASSERT_EQ(tree.which, of.which);
    EXPECT_EQ(names.size(), count_of(all_levels(tree)));
    ASSERT_TRUE(read_path(all_levels(tree), names, values));
    EXPECT_EQ(values.net, std::string(of.path).find("Net") < std::string(of.path).find("AlexNet") ? "Net" : "");
    EXPECT_EQ(values.model, kind == LayoutKind::acl && of.which == TreeCase::usual ? "AlexNet" : "");
    const bool says_rank = std::string(of.path).find("rank") != std::string::npos;
    EXPECT_EQ(values.rank, says_rank ? std::optional(3U) : std::nullopt);
    EXPECT_EQ(values.world_size, kind == LayoutKind::torchair ? std::optional(8U) : std::nullopt);
    EXPECT_EQ(values.device, says_rank && kind != LayoutKind::torchair ? std::nullopt : std::optional(1U));
    EXPECT_EQ(values.step_id().graph, of.graph);
    EXPECT_EQ(path_of(all_levels(tree), values), written.right.lexically_relative("/dump"));
  });
}

// As in reading a dump without a journal. The paths of operators that threw do not contain their rank.
TEST(Trees, AreFoundAgainInAPath) {
  for_each_case([](const Case& of, LayoutKind, const Written& written) {
    if (of.which == TreeCase::exceptions) return;
    const StepPlace place = place_of(written.right, "/dump");
    EXPECT_EQ(place.directory, written.right);
    EXPECT_EQ(place.rank_directory, written.layout.rank_directory());
    EXPECT_EQ(place.metadata, written.layout.metadata_directory());
    // otherwise: of the device
    EXPECT_EQ(place.rank, std::string(of.path).find("rank") != std::string::npos ? 3U : 1U);
    EXPECT_EQ(place.step.graph, of.graph);
    const bool says_step = of.which != TreeCase::constants && of.which != TreeCase::no_model;
    EXPECT_EQ(place.step.number, says_step ? 12U : 0U);
  });
}

// As in opening a part of a dump with a journal: the directory of a step, and those above it up to the rank's.
TEST(Trees, SayWhichPartOfARankADirectoryIs) {
  for_each_case([](const Case& of, LayoutKind, const Written& written) {
    const fs::path rank = written.layout.rank_directory();
    const StepFilter whole = filter_of(rank, written.right.lexically_relative(rank));
    const bool says_step = std::string(of.path).find("12") != std::string::npos;
    EXPECT_EQ(whole.number, says_step ? std::optional<std::uint64_t>(12) : std::nullopt);
    const bool says_graph = of.which != TreeCase::no_model && of.which != TreeCase::exceptions;
    EXPECT_EQ(whole.graph.value_or(0), of.graph);
    EXPECT_TRUE(whole.graph || !says_graph);
    for (fs::path at = written.right; at != rank; at = at.parent_path()) {
      EXPECT_TRUE(filter_of(rank, at.lexically_relative(rank)).takes({of.graph, 12})) << at;
      const StepFilter deeper = filter_of(rank, (at / "more").lexically_relative(rank));
      EXPECT_TRUE(deeper.takes({of.graph, 12})) << at;
    }
  });
}

TEST(Trees, AreShownAsTheyAre) {
  for_each_case([](const Case& of, LayoutKind kind, const Written& written) {
    const std::string graph = std::to_string(of.graph), from_one = std::to_string(of.graph + 1);
    const std::string words = path_in_words(all_levels(tree_of(kind, of.which)), "Net");
    const std::string path = replaced(words, {{"worldsizeW", "worldsize8"},
                                              {"global_rankR", "global_rank3"},
                                              {"rank_N", "rank_3"},
                                              {"device_N", "device_1"},
                                              {"graph_N/N", "graph_" + from_one + "/" + from_one},
                                              {"GRAPH", graph},
                                              {"GRAPH", graph},
                                              {"MODEL", "AlexNet"},
                                              {"DEVICE", "1"},
                                              {"STEP", "12"},
                                              {"TIME", time_of_run()}});
    EXPECT_EQ("/dump/" + path, written.right);
    EXPECT_NE(words, path);
  });
}

TEST(Trees, DistinguishNamesWithoutDirectories) {
  const fs::path time = "20260102030405";
  EXPECT_EQ(filter_of("/dump/Net/device_1", "graph_2").graph, 2U);
  EXPECT_EQ(filter_of("/copy", "graph_2").graph, 2U);
  EXPECT_EQ(filter_of("/dump/worldsize8_global_rank3" / time / "1", "graph_2").graph, 1U);
  EXPECT_EQ(filter_of("/dump/device_1", "Net_graph_2").graph, 2U);
  EXPECT_EQ(filter_of("/dump/rank_1", "Net_graph_2").graph, std::nullopt);
  EXPECT_EQ(filter_of("/dump/rank_1", "Net_graph_2/0").graph, 0U);
  EXPECT_EQ(filter_of("/dump/rank_1", "graph_2/1/3").graph, 1U);
  EXPECT_EQ(filter_of("/dump/rank_1", "execution_order").graph, std::nullopt);
  EXPECT_EQ(filter_of("/dump", "7").number, 7U);
}

TEST(Trees, KnowNamesOfRanksAndTimes) {
  std::uint32_t number = 9;
  for (const char* name : {"rank_3", "device_3", "worldsize8_global_rank3", "worldsizeN_global_rank3"}) {
    number = 9;
    EXPECT_TRUE(rank_number(name, number)) << name;
    EXPECT_EQ(number, 3U);
  }
  for (const char* name :
       {"rank_", "rank_x", "rank3", "device_-1", "global_rank3", "worldsize8_global_rank", "", "3"}) {
    EXPECT_FALSE(rank_number(name, number)) << name;
  }
  EXPECT_TRUE(is_rank_above_times("worldsize8_global_rank3"));
  EXPECT_FALSE(is_rank_above_times("rank_3"));
  EXPECT_TRUE(device_number("device_4", number));
  EXPECT_EQ(number, 4U);
  EXPECT_FALSE(device_number("rank_4", number));
  EXPECT_EQ(rank_name(3), "rank_3");
  EXPECT_EQ(device_name(3), "device_3");
  EXPECT_TRUE(is_time("20260102030405"));
  for (const char* name : {"2026010203040", "202601020304056", "30260102030405", "2026010203040x"}) {
    EXPECT_FALSE(is_time(name)) << name;
  }
}

// Two levels must agree on a value; levels that fit are also used behind one that does not fit.
TEST(Trees, AreNotReadFromOtherPaths) {
  const auto read = [](const char* layout, const std::vector<std::string>& names, TreeValues& values) {
    values = {};
    return read_path(tree_of(*layout_from_name(layout)).step, names, values);
  };
  TreeValues values;
  EXPECT_FALSE(read("mindspore-1.2-async", {"Net_graph_1", "2", "3"}, values));
  EXPECT_FALSE(read("torchair", {"graph_0", "0", "3"}, values));
  EXPECT_FALSE(read("o0", {"3", "7", "1", "0"}, values));
  EXPECT_FALSE(read("o2", {"3", "20260102030405", "1", "Net", "0", "1"}, values));
  EXPECT_FALSE(read("ge", {"Net", "x", "3"}, values));
  EXPECT_EQ(values.graph, std::nullopt);
  EXPECT_EQ(values.step, 3U);
  EXPECT_TRUE(read("ge", {"Net", "4"}, values));
  EXPECT_EQ(values.graph, 4U);
  EXPECT_EQ(values.step, std::nullopt);
}

TEST(SideNames, AreThoseOfMindSporeAndOurs) {
  EXPECT_EQ(host_directory_in("/dump"), "/dump/.dump_metadata/mindspore");
  EXPECT_EQ(journal_in("/dump/.dump_metadata"), "/dump/.dump_metadata/sonde/journal");
  EXPECT_EQ(graph_name(2, ".pb"), "ms_output_trace_code_graph_2.pb");
  EXPECT_EQ(order_name(2), "ms_execution_order_graph_2.csv");
  EXPECT_EQ(history_name(2), "ms_global_execution_order_graph_2.csv");
  EXPECT_EQ(graph_steps_name(2), "steps_graph_2.csv");
  EXPECT_EQ(graphs_of_step_name("7"), "step_7");
  EXPECT_TRUE(is_history_name(history_name(2)));
  EXPECT_FALSE(is_history_name(order_name(2)));
  EXPECT_TRUE(is_graph_steps_name(graph_steps_name(2)));
  EXPECT_FALSE(is_graph_steps_name(graph_name(2, ".ir")));
  EXPECT_TRUE(is_graphs_of_step_name(graphs_of_step_name("7")));
  EXPECT_FALSE(is_graphs_of_step_name("sources"));
}

}  // namespace
}  // namespace sonde
