#include "dump/graph/host_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <random>

#include "dump/graph/execution_order.h"
#include "dump/graph/graph.h"
#include "dump/graph/ir_text.h"
#include "dump/graph/model_proto.h"
#include "mindspore_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sonde {
namespace {

using test::mindspore_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAreArray;

HostGraph read_pb(const std::string& name) {
  Result<HostGraph> graph = read_model_proto(mindspore_file(name));
  EXPECT_TRUE(graph) << graph.error().message;
  return std::move(*graph);
}

const HostOp& op_of(const HostGraph& graph, std::string_view end) {
  const auto found = std::ranges::find_if(graph.ops, [&](const HostOp& op) { return op.op_name.ends_with(end); });
  EXPECT_NE(found, graph.ops.end()) << end;
  return *found;
}

std::vector<std::string> names_of(const HostGraph& graph) {
  std::vector<std::string> names;
  for (const HostOp& op : graph.ops) names.push_back(op.op_name);
  return names;
}

// "ReLU-op1:0", "optimizer.momentum", "2", "data-3"
std::vector<std::string> inputs_of(const HostGraph& graph, const HostOp& op) {
  std::vector<std::string> texts;
  for (const HostInput& input : op.inputs) {
    const std::string& source = graph.ops[input.kind == HostInput::Kind::op ? input.op : 0].op_name;
    if (input.kind == HostInput::Kind::op) {
      texts.push_back(source.substr(source.rfind('/') + 1) + ":" + std::to_string(input.slot));
    } else if (input.value) {
      texts.push_back(std::to_string(static_cast<int>(*input.value)));
    } else {
      texts.push_back(input.kind == HostInput::Kind::unknown ? "?" : input.parameter);
    }
  }
  return texts;
}

std::vector<std::string> lines_of(const HostOp& op) {
  std::vector<std::string> texts;
  for (const SourceLine& line : op.trace) {
    const std::string name = line.file.substr(line.file.rfind('/') + 1);
    texts.push_back(name + ":" + std::to_string(line.line) + " " + line.function);
  }
  return texts;
}

TEST(HostGraph, OfThePbHasTheOpsOfTheExecutionOrder) {
  for (const std::string version : {"2.7", "2.10"}) {
    const HostGraph graph = read_pb(version + "/small/graph.pb");
    const ExecutionOrderNames order(mindspore_file(version + "/small/execution_order.csv"));
    EXPECT_THAT(names_of(graph), UnorderedElementsAreArray(order.names())) << version;
  }
}

TEST(HostGraph, FindsTheSourceOfEachInput) {
  const HostGraph graph = read_pb("2.10/small/graph.pb");
  EXPECT_THAT(inputs_of(graph, op_of(graph, "network-Net/conv-Conv2d/Conv2D-op1")),
              ElementsAre("ReLU-op0:0", "optimizer.network.conv.weight"));
  EXPECT_THAT(inputs_of(graph, op_of(graph, "network-Net/Concat-op1")), ElementsAre("Split-op0:1", "Split-op0:0", "0"))
      << "one of several outputs, through a tuple of tuples";
  EXPECT_THAT(
      inputs_of(graph, op_of(graph, "SGD-op2")),
      ElementsAre("optimizer.network.conv.weight", "AddN-op1:0", "optimizer.learning_rate",
                  "optimizer.accum.network.conv.weight", "optimizer.momentum", "optimizer.stat.network.conv.weight"))
      << "an operand that only keeps an order is not an input";
  EXPECT_THAT(inputs_of(graph, op_of(graph, "Conv2DBackpropFilter-op2")),
              ElementsAre("ReluGrad-op0:0", "ReLU-op0:0", "data-12"));
}

TEST(HostGraph, HasLinesOfUserAndFramework) {
  for (const std::string version : {"2.7", "2.10"}) {
    const HostGraph graph = read_pb(version + "/small/graph.pb");
    EXPECT_THAT(lines_of(op_of(graph, "network-Net/conv-Conv2d/Conv2D-op0")),
                ElementsAre(version == "2.7" ? "conv.py:366 construct" : "conv.py:373 construct", "train.py:14 block",
                            "train.py:17 construct", "train.py:31 construct"));
    EXPECT_THAT(lines_of(op_of(graph, "Grad_ReLU/ReluGrad-op0"))[1], "train.py:14 block") << "of a forward candidate";
    EXPECT_THAT(lines_of(op_of(graph, "AddN-op1")), IsEmpty()) << "MindSpore itself says none";
    EXPECT_EQ(graph.lines.at("/home/user/train.py").at(14), "        return ops.relu(self.conv(x))");
  }
}

TEST(HostGraph, HasAttributesThatPeopleRead) {
  const HostGraph graph = read_pb("2.10/small/graph.pb");
  std::vector<std::string> texts;
  for (const Attribute& attribute : op_of(graph, "Conv2d/Conv2D-op0").attributes) {
    texts.push_back(attribute.name + "=" + text_of(attribute));
  }
  EXPECT_THAT(texts, testing::IsSupersetOf({"kernel_size=[3, 3]", "pad_mode=same", "groups=1"}));
  EXPECT_THAT(texts, testing::Not(testing::Contains(HasSubstr("IsFeatureMap"))));
}

TEST(HostGraph, OfTheIrHasTheSameLines) {
  for (const std::string name : {"2.10/small", "2.7/pair"}) {
    const HostGraph pb = read_pb(name + "/graph.pb");
    const HostGraph ir = read_ir_text(mindspore_file(name + "/graph.ir"));
    ASSERT_EQ(names_of(ir), names_of(pb)) << name;
    for (std::size_t i = 0; i < pb.ops.size(); ++i) {
      EXPECT_EQ(lines_of(ir.ops[i]), lines_of(pb.ops[i])) << pb.ops[i].op_name;
      EXPECT_EQ(ir.ops[i].op_type, pb.ops[i].op_type);
    }
    EXPECT_EQ(ir.lines, pb.lines);
  }
}

Graph own_graph() {
  Graph graph;
  GraphNode node;
  node.op_type = "linear";
  node.op_name = "Default/network-Net/fc-Linear/linear-op0";
  node.trace = {{"train.py", "", 8, 2, 8, 9}, {"main.py", "", 3, 0, 3, 4}};
  node.outputs.emplace_back();
  graph.nodes.push_back(node);
  return graph;
}

TEST(HostGraph, OfOurOwnGraphsIsReadInEveryGrammar) {
  SourceTexts sources([](const std::string&) { return std::string("1\n2\n3\n4\n5\n6\n7\n  return 8\n"); });
  for (const IrGrammar grammar : {IrGrammar::v1_2, IrGrammar::v2_0, IrGrammar::v2_3, IrGrammar::v2_7}) {
    const HostGraph graph = read_ir_text(ir_text(own_graph(), grammar, sources));
    ASSERT_THAT(names_of(graph), ElementsAre("Default/network-Net/fc-Linear/linear-op0"));
    EXPECT_THAT(lines_of(graph.ops[0]), ElementsAre("train.py:8 ", "main.py:3 "));
    EXPECT_EQ(graph.lines.at("train.py").at(8), "  return 8");
  }
  const Result<HostGraph> graph = read_model_proto(model_proto(own_graph(), sources));
  ASSERT_TRUE(graph);
  EXPECT_THAT(lines_of(graph->ops[0]), ElementsAre("train.py:8 ", "main.py:3 "));
}

TEST(HostGraph, CutOffIsCorrupt) {
  const std::string bytes = mindspore_file("2.7/pair/graph.pb");
  for (const std::size_t kept : {bytes.size() - 1, bytes.size() / 2, std::size_t{3}, std::size_t{1}}) {
    const Result<HostGraph> graph = read_model_proto(std::string_view(bytes).substr(0, kept));
    ASSERT_FALSE(graph) << kept;
    EXPECT_EQ(graph.error().code, ErrorCode::corrupt);
    EXPECT_THAT(graph.error().message, HasSubstr("it is not a complete ModelProto"));
  }
  EXPECT_THAT(read_model_proto("").error().message, HasSubstr("it holds no graph"));
}

// A message of nodes, each with a type, a full name and inputs; named by their numbers from 1.
struct TestNode {
  std::string type;
  std::vector<std::string> inputs;
};
std::string proto_of(const std::vector<TestNode>& nodes) {
  std::string bytes;
  protozero::pbf_writer model(bytes);
  {
    protozero::pbf_writer graph(model, 4);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      protozero::pbf_writer node(graph, 1);
      for (const std::string& name : nodes[i].inputs) protozero::pbf_writer(node, 1).add_string(1, name);
      node.add_string(2, std::to_string(i + 1));
      node.add_string(3, nodes[i].type);
      node.add_string(8, "Default/" + nodes[i].type + "-op" + std::to_string(i));
    }
  }
  return bytes;
}

TEST(HostGraph, ThatGoesRoundInCirclesEnds) {
  const HostGraph graph =
      *read_model_proto(proto_of({{"Depend", {"1"}}, {"MakeTuple", {"2", "2"}}, {"Add", {"1", "2"}}}));
  ASSERT_THAT(graph.ops, SizeIs(1));
  for (const HostInput& input : graph.ops[0].inputs) EXPECT_EQ(input.kind, HostInput::Kind::unknown);
}

TEST(HostGraph, OfTuplesThatDoubleStaysSmall) {
  std::vector<TestNode> nodes = {{"Add", {}}};
  for (int i = 1; i < 40; ++i) {
    const std::string last = std::to_string(i);
    nodes.push_back({"MakeTuple", {last, last}});
  }
  for (int i = 0; i < 30; ++i) nodes.push_back({"Concat", {"40"}});
  const HostGraph graph = *read_model_proto(proto_of(nodes));
  std::size_t inputs = 0;
  for (const HostOp& op : graph.ops) inputs += op.inputs.size();
  EXPECT_LE(inputs, std::size_t{1} << 20);
}

TEST(HostGraph, OfAnyBytesIsReadOrRefused) {
  std::mt19937 random(7);
  const std::vector<std::string> samples = {mindspore_file("2.7/pair/graph.pb"), mindspore_file("2.7/pair/graph.ir"),
                                            mindspore_file("2.10/small/graph.pb").substr(0, 12000),
                                            mindspore_file("2.10/lenet/execution_order.csv")};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = samples[static_cast<std::size_t>(round) % samples.size()];
    for (std::size_t change = random() % 6; change > 0; --change) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.resize(at + 1);
          break;
        case 2:
          bytes.erase(at, random() % 20);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 50));
      }
      if (bytes.empty()) bytes = "#";
    }
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
  }
}

}  // namespace
}  // namespace sonde
