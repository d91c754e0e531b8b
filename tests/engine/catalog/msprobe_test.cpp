// Dumps of msprobe: stepN/rankN with JSON and tensor files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dump_files.h"
#include "formats/torch_bytes.h"
#include "read/catalog/catalog.h"
#include "read/catalog/json_reader.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kOne = torch_file(pickled_tensor("0", "FloatStorage", 2, 0, {2}, {1}), {{"0", bytes_of({1, 2})}});

std::string tensor(const std::string& statistics, const std::string& file = "") {
  return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], )" + statistics +
         R"(, "requires_grad": true)" + (file.empty() ? "" : R"(, "data_name": ")" + file + '"') + "}";
}
const std::string kStatistics = R"("Max": 2.0, "Min": 1.0, "Mean": 1.5, "Norm": 2.236)";
const std::string kBad = R"("Max": NaN, "Min": -Infinity, "Mean": "nan", "Norm": null)";

std::string document(const std::string& records) {
  return R"({"task": "tensor", "level": "mix", "framework": "pytorch", "dump_data_dir": "/elsewhere", "data": {)" +
         records + "}}";
}

std::string record(const std::string& name, const std::string& inputs, const std::string& outputs,
                   const std::string& more = "") {
  return '"' + name + R"(": {"input_args": [)" + inputs + R"(], "input_kwargs": {}, "output": [)" + outputs + "]" +
         more + "}";
}

TEST(Msprobe, IsReadWithStepsRanksOrderLinesAndScopes) {
  const TemporaryDirectory dump;
  const std::string conv = record("Functional.conv2d.0.forward", tensor(kStatistics, "x.pt"), tensor(kBad));
  const std::string module = record("Module.net.0.conv.Conv2d.forward.0", tensor(kStatistics), tensor(kBad),
                                    R"(, "parameters": {"weight": )" + tensor(kStatistics) + "}");
  dump.write("step2/rank1/dump.json", document(conv + ", " + module));
  dump.write("step2/rank1/dump_tensor_data/x.pt", kOne);
  dump.write(
      "step2/rank1/construct.json",
      R"({"Functional.conv2d.0.forward": "Module.net.0.conv.Conv2d.forward.0", "Module.net.0.conv.Conv2d.forward.0": null})");
  dump.write("step2/rank1/stack.json", R"json({"0": [["Functional.conv2d.0.forward"],
      ["File /x/site-packages/torch/nn/conv.py, line 560, in _conv, \n return F.conv2d(", "File /home/me/net.py, line 14, in forward, \n y = self.conv(x)"]]})json");
  dump.write("step10/rank1/dump.json", document(conv));
  dump.write("step10/rank1/dump_tensor_data/x.pt", kOne);
  const Catalog catalog = opened(dump.path());
  EXPECT_THAT(catalog.problems, IsEmpty());
  ASSERT_THAT(catalog.ranks, SizeIs(1));
  const CatalogRank& rank = catalog.ranks[0];
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.kind, DumpKind::msprobe);
  ASSERT_THAT(rank.steps, SizeIs(2));
  EXPECT_EQ(rank.steps[0].id.number, 2);
  EXPECT_EQ(rank.steps[1].id.number, 10);
  ASSERT_THAT(names_of(rank.steps[0]),
              ElementsAre("Functional.conv2d.0.forward", "Module.net.0.conv.Conv2d.forward.0"));
  const CatalogOp& op = rank.steps[0].ops[0];
  EXPECT_EQ(op.op_type, "conv2d");
  EXPECT_EQ(op.scope, "net/0/conv-Conv2d");
  EXPECT_EQ(op.source_file, "/home/me/net.py");
  EXPECT_EQ(op.line, 14);
  EXPECT_EQ(op.function, "forward");
  EXPECT_EQ(op.tensors[0].file, "step2/rank1/dump_tensor_data/x.pt");
  EXPECT_EQ(op.tensors[0].statistics->max, 2.0);
  EXPECT_EQ(op.tensors[0].statistics->count, 2U);
  EXPECT_TRUE(std::isnan(*op.tensors[1].statistics->max));
  EXPECT_EQ(*op.tensors[1].statistics->min, -INFINITY);
  EXPECT_FALSE(op.tensors[1].statistics->all_finite());
  EXPECT_TRUE(rank.steps[0].ops[1].is_module);
  EXPECT_EQ(rank.steps[0].ops[1].tensors[1].parameter, "net.0.conv.weight");
  EXPECT_EQ(op.tensors[0].parameter, "net.0.conv.weight");  // the op's input is the module's weight
}

TEST(Msprobe, CountsListsThroughAndNamesArguments) {
  const TemporaryDirectory dump;
  dump.write("dump.json",
             document(R"("Torch.cat.0.forward": {"input_args": [[)" + tensor(kStatistics) + ", " + tensor(kStatistics) +
                      R"(], null, {"type": "int", "value": 3}, {"type": "str", "value": "a"}],
      "input_kwargs": {"out": )" +
                      tensor(kStatistics) + R"(}, "output": [)" + tensor(kStatistics) + "]}"));
  const Catalog catalog = opened(dump.path());
  const CatalogOp& op = catalog.ranks.at(0).steps.at(0).ops.at(0);
  std::vector<std::string> slots;
  for (const CatalogTensor& t : op.tensors) {
    slots.push_back((t.is_input ? "in" : "out") + std::to_string(t.slot) + ":" + std::string(t.key));
  }
  EXPECT_THAT(slots, ElementsAre("in0:0.0", "in1:0.1", "in3:2", "in5:out", "out0:"));
  EXPECT_EQ(op.tensors[2].constant, 3.0);
}

TEST(Msprobe, FindsWhereInputsLikelyComeFrom) {
  const TemporaryDirectory dump;
  const std::string other = R"("Max": 5.0, "Min": 1.0, "Mean": 1.5, "Norm": 2.236)";
  const std::string constant = R"("Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0)";
  dump.write("dump.json", document(record("Torch.a.0.forward", "", tensor(kStatistics) + "," + tensor(constant)) + "," +
                                   record("Torch.b.0.forward", tensor(kStatistics), tensor(other)) + "," +
                                   record("Torch.c.0.forward", tensor(other) + "," + tensor(constant), "")));
  const Catalog catalog = opened(dump.path());
  const std::vector<CatalogOp>& ops = catalog.ranks.at(0).steps.at(0).ops;
  EXPECT_EQ(ops[1].tensors[0].source, ops[0].sequence);
  EXPECT_TRUE(ops[1].tensors[0].source_is_likely);
  EXPECT_EQ(ops[2].tensors[0].source, ops[1].sequence);
  EXPECT_EQ(ops[2].tensors[1].source, kNoSequence);  // ones are alike everywhere
}

TEST(Msprobe, GivesProcessesRanksInOrder) {
  const TemporaryDirectory dump;
  for (const char* name : {"step0/proc90", "step0/proc17", "step1/proc90"}) {
    dump.write(std::filesystem::path(name) / "dump.json",
               document(record("Torch.a.0.forward", "", tensor(kStatistics))));
  }
  const Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.ranks, SizeIs(2));
  EXPECT_THAT(catalog.ranks[0].steps, SizeIs(1));
  EXPECT_THAT(catalog.ranks[1].steps, SizeIs(2));
  EXPECT_THAT(opened(dump.path() / "step1/proc90").ranks.at(0).steps, SizeIs(1));
  EXPECT_THAT(opened(dump.path() / "step1/proc90/dump.json").ranks.at(0).steps,
              SizeIs(1));  // as msprobe's tools require
}

TEST(Msprobe, KeepsWhatStandsBeforeDamageWhereverItIs) {
  const std::string whole = document(record("Torch.a.0.forward", tensor(kStatistics), tensor(kStatistics)) + "," +
                                     record("Torch.b.0.forward", tensor(kStatistics), tensor(kStatistics)));
  const TemporaryDirectory dump;
  const std::size_t second = whole.find("Torch.b"), end = whole.size();
  for (std::size_t length = 1; length < end; length += 7) {
    dump.write("dump.json", whole.substr(0, length));
    const Catalog catalog = opened(dump.path());
    ASSERT_THAT(catalog.problems, SizeIs(1)) << length;
    EXPECT_THAT(catalog.problems[0].message, HasSubstr("byte "));
    const std::size_t ops = catalog.ranks.at(0).steps.at(0).ops.size();
    EXPECT_EQ(ops, length < second ? 0U : length < end - 2 ? 1U : 2U) << length;
  }
}

TEST(Msprobe, OpensNothingOutsideItsOwnDirectory) {
  const TemporaryDirectory dump, outside;
  outside.write("secret.pt", kOne);
  dump.write(
      "dump.json",
      document(record("Torch.a.0.forward", tensor(kStatistics, "../../secret.pt"), tensor(kStatistics, "link.pt")) +
               "," + record("Torch.b.0.forward", tensor(kStatistics, "gone.pt"), tensor(kStatistics, "/etc/x.pt"))));
  std::filesystem::create_directory(dump.path() / "dump_tensor_data");
  std::filesystem::create_symlink(outside.path() / "secret.pt", dump.path() / "dump_tensor_data/link.pt");
  std::filesystem::create_symlink("loop.pt", dump.path() / "dump_tensor_data/loop.pt");
  const Catalog catalog = opened(dump.path());
  for (const CatalogOp& op : catalog.ranks.at(0).steps.at(0).ops) {
    for (const CatalogTensor& t : op.tensors) EXPECT_EQ(t.file, "");
  }
  std::string all;
  for (const CatalogProblem& problem : catalog.problems) all += problem.message + "\n";
  EXPECT_THAT(catalog.problems, SizeIs(4));
  EXPECT_THAT(all, HasSubstr("leaves the dump"));
  EXPECT_THAT(all, HasSubstr("leads nowhere"));
  EXPECT_THAT(all, HasSubstr("2 tensors have a data_name that leaves dump_tensor_data"));
  EXPECT_THAT(all, HasSubstr("1 tensor files do not exist, such as 'gone.pt'"));
}

TEST(Msprobe, ShowsTensorsThatTheJsonDoesNotName) {
  const TemporaryDirectory dump;
  dump.write("dump.json", document(""));
  dump.write("dump_tensor_data/Torch.cat.0.forward.input.0.1.pt", kOne);
  dump.write("dump_tensor_data/Torch.cat.0.forward.output.0.pt", kOne);
  Catalog catalog = opened(dump.path());
  ASSERT_THAT(catalog.problems, SizeIs(1));
  EXPECT_THAT(catalog.problems[0].message, HasSubstr("2 tensors are in no record"));
  std::vector<CatalogOp>& ops = catalog.ranks.at(0).steps.at(0).ops;
  ASSERT_THAT(ops, SizeIs(1));
  EXPECT_EQ(ops[0].op_name, "Torch.cat.0.forward");
  ASSERT_THAT(ops[0].tensors, SizeIs(2));
  ASSERT_TRUE(Measurer().measure(catalog.ranks[0], ops[0].tensors[1]));
  EXPECT_EQ(ops[0].tensors[1].statistics->max, 2.0);
}

TEST(JsonReader, TakesWhatPythonWritesAndSaysWhereItIsWrong) {
  JsonReader json(R"( {"a\u00e9\ud83d\ude00": [1, -2.5e3, NaN, -Infinity, true, null, "x\n"], "b": 7} )");
  std::string key;
  double number = 0;
  ASSERT_TRUE(json.enter_object());
  ASSERT_TRUE(json.next_key(key));
  EXPECT_EQ(key, "a\xC3\xA9\xF0\x9F\x98\x80");
  json.skip();
  ASSERT_TRUE(json.next_key(key));
  ASSERT_TRUE(json.take_number(number));
  EXPECT_EQ(number, 7);
  EXPECT_FALSE(json.next_key(key));
  EXPECT_FALSE(json.failed());
  for (const char* text : {"{\"a\" 1}", "[1 2]", "[1,]", "{\"a\":}", "[", "\"abc", "tru", "[1e]", "[[[["}) {
    JsonReader bad(text);
    bad.skip();
    EXPECT_THAT(bad.problem(), HasSubstr("byte ")) << text;
  }
}

}  // namespace
}  // namespace sonde
