// Dumps of MindSpore with the graph files that it writes beside them.
#include "read/catalog/host_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "dump_files.h"
#include "read/catalog/step_graph.h"

namespace sonde {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string mindspore_file(const std::string& name) {
  std::ifstream file(std::filesystem::path(SONDE_MINDSPORE_FILES) / name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Names of the tensor files of a step of `small`, in the order of their times.
std::vector<std::string> file_names(const std::string& version) {
  std::istringstream text(mindspore_file(version + "/small/files.txt"));
  std::vector<std::string> names;
  for (std::string name; std::getline(text, name);) names.push_back(name);
  return names;
}

const std::string kFilter =
    "Conv2DBackpropFilter.Gradients_Default_network-Net_conv-Conv2d_Grad_Conv2D_Conv2DBackpropFilter";
const std::string kReluGrad = "ReluGrad.Gradients_Default_network-Net_Grad_ReLU_ReluGrad";

// The step of `small` as MindSpore writes it. Each file has another value, except that the inputs of the convolution's
// two recreated gradients have the values that these read.
struct SmallDump {
  TemporaryDirectory directory;
  std::filesystem::path step = "rank_0/Net/0/0";

  explicit SmallDump(const std::string& version, std::string_view iteration = "0") {
    step = std::filesystem::path("rank_0/Net/0") / iteration;
    std::map<std::string, float> values;  // of an op's slot
    float next = 1;
    for (const std::string& name : file_names(version)) {
      std::string slot = name.substr(0, name.find(".0.0.")) + name.substr(name.find(".0.0.") + 21);
      if (slot == kFilter + "-op1.input.0.DefaultFormat.Float32.npy")
        slot = kReluGrad + "-op0.output.0.DefaultFormat.Float32.npy";
      if (slot == kFilter + "-op0.input.0.DefaultFormat.Float32.npy")
        slot = kReluGrad + "-op1.output.0.DefaultFormat.Float32.npy";
      const auto [value, fresh] = values.try_emplace(slot, next);
      if (fresh) ++next;
      write(step / name, npy("<f4", "(1,)", bytes_of({value->second})));
    }
    for (const std::string type : {"pb", "ir"}) {
      if (type == "pb" || version == "2.10") {
        write("rank_0/graphs/ms_output_trace_code_graph_0." + type, mindspore_file(version + "/small/graph." + type));
      }
    }
    write("rank_0/execution_order/ms_execution_order_graph_0.csv",
          mindspore_file(version + "/small/execution_order.csv"));
  }

  void write(const std::filesystem::path& file, std::string_view bytes) const { directory.write(file, bytes); }
  void remove(const std::string& file) const { std::filesystem::remove(directory.path() / "rank_0" / file); }
  // The two gradients ran in the other order.
  void swap_order() const {
    const auto rename = [&](const std::string& number, const std::string& from, const std::string& to) {
      for (const std::filesystem::directory_entry& entry :
           std::filesystem::directory_iterator(directory.path() / step)) {
        std::string name = entry.path().filename();
        if (!name.starts_with(kFilter + number)) continue;
        name.replace(name.find(from), from.size(), to);
        std::filesystem::rename(entry.path(), entry.path().parent_path() / name);
      }
    };
    rename("-op1", ".0.0.17", ".0.0.18");
  }
  // All values are equal.
  void make_all_equal() const {
    for (const std::string& name : file_names("2.10")) write(step / name, npy("<f4", "(1,)", bytes_of({1})));
  }

  Catalog opened() const {
    Result<Catalog> catalog = open_catalog(directory.path());
    EXPECT_TRUE(catalog) << catalog.error().message;
    return std::move(*catalog);
  }
};

const CatalogOp& op_of(const Catalog& catalog, std::string_view end) {
  const std::vector<CatalogOp>& ops = catalog.ranks[0].steps[0].ops;
  const auto found = std::ranges::find_if(ops, [&](const CatalogOp& op) { return op.op_name.ends_with(end); });
  EXPECT_NE(found, ops.end()) << end;
  return *found;
}

// The sources of an op's inputs: "…/ReLU-op1:output.0", a name, or "?".
std::vector<std::string> sources_of_inputs(const Catalog& catalog, const CatalogOp& op) {
  std::vector<std::string> texts;
  for (const CatalogTensor& tensor : op.tensors) {
    if (!tensor.is_input) continue;
    std::string text = tensor.parameter.empty() ? "?" : std::string(tensor.parameter);
    for (const CatalogOp& other : catalog.ranks[0].steps[0].ops) {
      if (other.sequence != tensor.source) continue;
      text = other.op_name.substr(other.op_name.rfind('/') + 1);
      text += ":output." + std::to_string(tensor.source_slot);
    }
    texts.push_back(tensor.constant ? "number" : text);
  }
  return texts;
}

TEST(HostGraphs, GiveEachOpItsNameLineAndInputs) {
  for (const std::string version : {"2.7", "2.10"}) {
    const SmallDump dump(version);
    const Catalog catalog = dump.opened();
    // Each file of SmallDump has one element.
    EXPECT_THAT(catalog.problems, Each(Field(&CatalogProblem::message, HasSubstr("other sizes than in the graph"))));
    for (const CatalogOp& op : catalog.ranks[0].steps[0].ops) {
      if (op.is_parameter) continue;
      EXPECT_THAT(std::string(op.op_name), HasSubstr("/"));
      EXPECT_EQ(op.source_file.empty(), op.op_type == "AddN") << op.op_name;
    }
    const CatalogOp& conv = op_of(catalog, "Default/network-Net/conv-Conv2d/Conv2D-op1");
    EXPECT_EQ(conv.source_file, "/home/user/train.py") << "not the line inside MindSpore";
    EXPECT_EQ(conv.line, 14U);
    EXPECT_EQ(conv.function, "block");
    ASSERT_NE(conv.trace, nullptr);
    EXPECT_THAT(conv.trace->front().file, HasSubstr("mindspore/nn/layer/conv.py"));
    EXPECT_THAT(sources_of_inputs(catalog, conv), ElementsAre("ReLU-op0:output.0", "optimizer.network.conv.weight"));
    EXPECT_THAT(sources_of_inputs(catalog, op_of(catalog, "Default/network-Net/Concat-op0")),
                ElementsAre("Split-op0:output.1", "Split-op0:output.0", "number"));
    EXPECT_EQ(op_of(catalog, "optimizer.network.conv.weight").op_type, "Parameter") << "with its dots";
  }
}

TEST(HostGraphs, FindOpsThatWereMadeAnew) {
  for (const std::string version : {"2.7", "2.10"}) {
    const SmallDump dump(version);
    const Catalog catalog = dump.opened();
    const CatalogOp& only = op_of(catalog, "Grad_Conv2D/Conv2DBackpropInput-op0");
    EXPECT_EQ(only.op_name, "Gradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropInput-op0");
    EXPECT_EQ(only.line, 14U);
    EXPECT_THAT(sources_of_inputs(catalog, op_of(catalog, "Conv2DBackpropFilter-op1")),
                ElementsAre("ReluGrad-op0:output.0", "ReLU-op0:output.0"));
    EXPECT_THAT(sources_of_inputs(catalog, op_of(catalog, "Conv2DBackpropFilter-op0")),
                ElementsAre("ReluGrad-op1:output.0", "x"));
    EXPECT_THAT(sources_of_inputs(catalog, op_of(catalog, "Gradients/Default/AddN-op0")),
                ElementsAre("Conv2DBackpropFilter-op0:output.0", "Conv2DBackpropFilter-op1:output.0"));
  }
}

TEST(HostGraphs, DistinguishOpsMadeAnewByTheirValuesWhateverTheirOrder) {
  for (const std::string version : {"2.7", "2.10"}) {
    const SmallDump dump(version);
    dump.swap_order();
    const Catalog catalog = dump.opened();
    EXPECT_THAT(sources_of_inputs(catalog, op_of(catalog, "Conv2DBackpropFilter-op1")),
                ElementsAre("ReluGrad-op0:output.0", "ReLU-op0:output.0"));
  }
}

TEST(HostGraphs, DistinguishOpsMadeAnewByTheirOrderInTheFirstStep) {
  const SmallDump dump("2.10");
  dump.make_all_equal();
  const Catalog catalog = dump.opened();
  EXPECT_THAT(sources_of_inputs(catalog, op_of(catalog, "Conv2DBackpropFilter-op1")),
              ElementsAre("ReluGrad-op0:output.0", "ReLU-op0:output.0"));
}

TEST(HostGraphs, SayOnlyWhatIndistinguishableOpsHaveInCommon) {
  const SmallDump dump("2.10", "5");
  dump.make_all_equal();
  dump.swap_order();  // so that both ran after all that they could read
  const Catalog catalog = dump.opened();
  const CatalogOp& op = op_of(catalog, "Conv2DBackpropFilter-op1");
  EXPECT_THAT(sources_of_inputs(catalog, op), ElementsAre("?", "?"));
  EXPECT_EQ(op.line, 14U) << "both have it";
  EXPECT_THAT(sources_of_inputs(catalog, op_of(catalog, "Gradients/Default/AddN-op0")), ElementsAre("?", "?"));
}

TEST(HostGraphs, NameTheSourceThatTheDumpDoesNotHold) {
  const SmallDump dump("2.10");
  for (const std::string& name : file_names("2.10")) {
    if (name.find("_conv-Conv2d_Conv2D-op1.") == std::string::npos) dump.remove("Net/0/0/" + name);
  }
  const Catalog catalog = dump.opened();
  ASSERT_THAT(catalog.ranks[0].steps[0].ops, SizeIs(1));
  EXPECT_THAT(sources_of_inputs(catalog, catalog.ranks[0].steps[0].ops[0]),
              ElementsAre("Default/network-Net/ReLU-op0:output.0", "optimizer.network.conv.weight"));
}

TEST(HostGraphs, HaveInputsThatWereNotDumped) {
  const SmallDump dump("2.10");
  for (const std::string& name : file_names("2.10")) {
    if (name.find(".input.") != std::string::npos) dump.remove("Net/0/0/" + name);
  }
  const Catalog catalog = dump.opened();
  const CatalogOp& op = op_of(catalog, "network-Net/ReLU-op1");
  EXPECT_THAT(sources_of_inputs(catalog, op), ElementsAre("Conv2D-op1:output.0"));
  EXPECT_FALSE(op.tensors[0].recorded());
  EXPECT_FALSE(op.tensors[0].wanted);
}

TEST(HostGraphs, GiveLinesFromTheIrWhereThePbIsGoneOrBroken) {
  for (const bool gone : {true, false}) {
    const SmallDump dump("2.10");
    const std::string pb = "graphs/ms_output_trace_code_graph_0.pb";
    if (gone) {
      dump.remove(pb);
    } else {
      dump.write("rank_0/" + pb, mindspore_file("2.10/small/graph.pb").substr(0, 20000));
    }
    const Catalog catalog = dump.opened();
    EXPECT_EQ(op_of(catalog, "network-Net/conv-Conv2d/Conv2D-op1").line, 14U);
    ASSERT_THAT(catalog.problems, SizeIs(gone ? 0 : 1));
    if (gone) continue;
    EXPECT_THAT(catalog.problems[0].message, HasSubstr("it is not a complete ModelProto"));
  }
}

TEST(HostGraphs, MayStandInTheMetadataOfTheWholeDump) {
  const SmallDump dump("2.10");
  const std::filesystem::path apart = dump.directory.path() / ".dump_metadata/mindspore/rank_0";
  std::filesystem::create_directories(apart);
  std::filesystem::rename(dump.directory.path() / "rank_0/graphs", apart / "graphs");
  EXPECT_EQ(op_of(dump.opened(), "network-Net/conv-Conv2d/Conv2D-op1").line, 14U);
}

TEST(HostGraphs, MayBeGoneAltogether) {
  const SmallDump dump("2.10");
  std::filesystem::remove_all(dump.directory.path() / "rank_0/graphs");
  const Catalog catalog = dump.opened();
  EXPECT_THAT(catalog.problems, IsEmpty());
  EXPECT_TRUE(op_of(catalog, "network-Net/conv-Conv2d/Conv2D-op1").source_file.empty());
  EXPECT_THAT(catalog.ranks[0].host_graphs, IsEmpty());
}

TEST(HostGraphs, NameOpsWithoutAnExecutionOrderToo) {
  const SmallDump dump("2.10");
  std::filesystem::remove_all(dump.directory.path() / "rank_0/execution_order");
  const Catalog catalog = dump.opened();
  EXPECT_EQ(op_of(catalog, "Conv2DBackpropFilter-op1").op_name,
            "Gradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropFilter-op1");
}

TEST(HostGraphs, QuoteTheirLinesWhereTheSourceIsGone) {
  const SmallDump dump("2.10");
  const Catalog catalog = dump.opened();
  SourceTexts sources = sonde::sources_of(catalog.ranks[0]);
  EXPECT_EQ(sources.line("/opt/mindspore/2.10/lib/python3.11/site-packages/mindspore/nn/layer/conv.py", 373),
            "        output = self.conv2d(x, self.weight)");
  EXPECT_EQ(sources.text("/etc/passwd"), nullptr) << "no graph quotes it";
}

TEST(HostGraphs, ShowOfASourceOnlyWhatTheyQuoteWhenItHasChanged) {
  const SmallDump dump("2.10");
  const std::filesystem::path file = dump.directory.path() / "train.py";
  const auto graph_of_line = [&](const std::string& text) {
    dump.remove("graphs/ms_output_trace_code_graph_0.pb");
    dump.write("rank_0/graphs/ms_output_trace_code_graph_0.ir",
               "      # Fullname with scope: (Default/network-Net/ReLU-op0)\n      # In file " + file.string() +
                   ":2, 0~3/" + text + "/\n");
    const Catalog catalog = dump.opened();
    return std::string(sonde::sources_of(catalog.ranks[0]).line(file, 3));
  };
  dump.write("train.py", "one\ntwo\nthree\n");
  EXPECT_EQ(graph_of_line("two"), "three");
  EXPECT_EQ(graph_of_line("zwei"), "");
}

}  // namespace
}  // namespace sonde
