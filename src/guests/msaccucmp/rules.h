// Rules: the fused operators of a compiled model, from its rule file (`ge_proto…json` as ATC writes it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "guests/msaccucmp/outcome.h"

namespace sonde::msaccucmp {

// The golden tensor that an output matches, and its layout.
struct OriginOutput {
  std::string name;  // golden operator; empty: nothing on the golden side
  std::optional<std::int64_t> index;
  std::string format;
  std::vector<std::int64_t> shape;
  std::string dtype;  // of the output itself: "DT_FLOAT16"
};

struct RuleOp {
  std::int64_t index = 0;     // the `Index` column: of its group
  std::int64_t sequence = 0;  // `id`: the order of execution
  std::string name, type;
  std::vector<std::string> inputs;  // "name:index"
  std::vector<OriginOutput> outputs;
  std::vector<std::string> origins;  // golden operators; {""}: a new one
  std::string l1_group;
  bool is_multi = false;
  bool is_left_out = false;  // between a pair that quantises and dequantises

  // Inside a relation of many to many: it has no counterpart on the golden side.
  bool is_inner() const;
  std::string origins_text() const;  // joined by commas
};

enum class Relation { one_to_one, many_to_one, one_to_many, many_to_many, l1_fusion };

// Operators that are compared together because they match the same golden ones.
struct Group {
  std::string key;
  std::vector<std::size_t> ops;  // places in Rules::ops
};

struct Rules {
  std::vector<RuleOp> ops;
  std::vector<Group> groups;  // in the order of their first operator
  std::vector<std::size_t> in_sequence;
  std::unordered_map<std::string, std::size_t> group_by_key;
  std::unordered_map<std::string, std::string> key_by_op;
  std::vector<std::string> op_names;    // the keys of key_by_op, in the order of the file
  std::vector<std::string> data_nodes;  // names of the `Data` operators: the model's inputs

  Relation relation(const Group& group) const;
  const Group* group_of(std::string_view op_name) const;
  const RuleOp* find(std::string_view op_name) const;
  // Both name cells of a group of several: "a,b" and "c,d".
  std::pair<std::string, std::string> names(const Group& group) const;
};

Outcome<Rules> parse_rules(std::string_view text, const std::string& name);
Outcome<Rules> read_rules(const std::filesystem::path& file);

// -f with -q: the offline rule's origins are operators of the quantised model; this one's own origins replace them.
Rules before_quantisation(Rules offline, const Rules& quantised);
// -f with -cf: the golden side is the dump of the same model, compiled without fusion.
Rules against_unfused(const Rules& fused, const Rules& unfused);

// The names of the graphs in a rule file, for the batch comparison.
Outcome<std::vector<std::string>> graph_names(const std::filesystem::path& file);

}  // namespace sonde::msaccucmp
