// Comparison by the rule file of a fused model.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "ground/tensor/format.h"
#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

// The operator that makes an input, and the index of its output.
struct Producer {
  const RuleOp* op = nullptr;
  std::int64_t index = 0;
};

Outcome<Producer> producer_of(const Rules& rules, const RuleOp& op, std::int64_t input) {
  if (input < 0 || static_cast<std::size_t>(input) >= op.inputs.size()) {
    return Failure{Code::out_of_range, fmt::format("[{}] the rule file gives it {} inputs: there is no input {}",
                                                   op.name, op.inputs.size(), input)};
  }
  const std::string& text = op.inputs[static_cast<std::size_t>(input)];
  const std::size_t colon = text.find(':');
  const auto trimmed = [](std::string_view part) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    return std::string(part);
  };
  const std::string name = trimmed(std::string_view(text).substr(0, colon));
  const std::string number = colon == std::string::npos ? "" : trimmed(std::string_view(text).substr(colon + 1));
  Producer producer;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), producer.index);
  if (name.empty() || number.empty() || problem != std::errc() || end != number.data() + number.size() ||
      producer.index < 0) {
    return Failure{Code::invalid_rule, fmt::format("[{}] input {} is '{}', not name:index", op.name, input, text)};
  }
  producer.op = rules.find(name);
  if (producer.op == nullptr) {
    return Failure{Code::invalid_parameter, fmt::format("[{}] its input '{}' is not in the rule file", op.name, text)};
  }
  return producer;
}

bool passes_through(const RuleOp& op) { return op.type == "Cast" || op.type == "TransData"; }

// The rows of one operator. Its own failure (no file, an unreadable one) is `failure`.
struct OpRows {
  std::vector<Row> rows;
  std::optional<Failure> failure;
  Code tensor_status = Code::ok;  // of a tensor or golden file that could not be read
  std::vector<std::string> warnings;
};

struct OpComparison {
  const Comparison& comparison;
  const RuleOp& op;
  const std::string &left_name, &right_name;
  const Hands& hands;
};

Row tensor_row(const OpComparison& c, const DumpTensor& tensor, std::size_t index, bool is_input) {
  Row row;
  row.index = c.op.index;
  row.sequence = c.op.sequence;
  row.op_type = c.op.type;
  row.left = c.left_name;
  row.right = c.right_name;
  row.tensor = fmt::format("{}:{}:{}", c.op.name, is_input ? "input" : "output", index);
  row.shape = bracketed(tensor.shape);
  row.left_address = address_text(tensor);
  if (c.comparison.options.overflow) row.overflow = overflow_text(tensor, c.hands);
  return row;
}

void compare_tensor(const OpComparison& c, const DumpOp& left, std::size_t index, bool is_input, OpRows& out) {
  const DumpTensor& tensor = (is_input ? left.inputs : left.outputs)[index];
  Row& row = out.rows.emplace_back(tensor_row(c, tensor, index, is_input));
  const auto fail = [&](const Failure& failure) { row.reason = fmt::format("[{}] {}", row.tensor, failure.reason); };
  const Outcome<Golden> golden = find_golden(c.comparison, c.op, index, is_input);
  if (tensor.is_sliced) {
    row.slice = Row::Slice{c.op.name, "", static_cast<std::int64_t>(index), 0, is_input};
    if (golden) row.slice->producer = golden->producer, row.slice->producer_output = golden->producer_index;
  }
  // A rule file with fewer inputs than the dump is reported in the log only, as always.
  if (!golden && golden.failure().status == Code::out_of_range) return out.warnings.push_back(golden.failure().reason);
  if (!golden) return fail(golden.failure());
  if (golden->files == nullptr) {
    return fail({Code::no_dump_file,
                 fmt::format("there is no dump file of the ground truth {}:{}", golden->origin.name, golden->index)});
  }
  std::string right_path;
  const Outcome<Aligned> aligned =
      align_with_golden(c.comparison, c.op, tensor, *golden, AlignFor::comparison, c.hands, right_path);
  if (!aligned) {
    const Code status = aligned.failure().status;
    const bool is_lost = status == Code::invalid_dump_data || status == Code::unsupported_type;
    if (is_lost && out.tensor_status == Code::ok) out.tensor_status = status;
    return fail(aligned.failure());
  }
  row.left_type = array_type_name(aligned->left.dtype);
  row.right_type = array_type_name(aligned->right.dtype);
  row.shape = bracketed(aligned->shape);
  fill_values(c.comparison, *aligned, aligned->shape, left.path, right_path, c.hands, row);
}

OpRows compare_op(const OpComparison& c) {
  OpRows out;
  const bool is_quant_file = c.comparison.left.kind == DumpKind::quant;
  const OpFiles* files =
      c.comparison.left.find(c.op.name, is_quant_file ? std::optional<std::int64_t>(0) : std::nullopt);
  if (files == nullptr) {
    out.failure =
        Failure{Code::no_dump_file,
                fmt::format("[{}] there is no dump file of my output, an operator of type {}", c.op.name, c.op.type)};
    return out;
  }
  const Outcome<DumpOp> left = read_op(*files);
  if (!left) {
    out.failure = Failure{left.failure().status, fmt::format("[{}] {}", c.op.name, left.failure().reason)};
    return out;
  }
  if (compares_inputs(c.op)) {
    for (std::size_t i = 0; i < left->inputs.size(); ++i) compare_tensor(c, *left, i, true, out);
  }
  if (compares_outputs(c.op)) {
    for (std::size_t i = 0; i < left->outputs.size(); ++i) compare_tensor(c, *left, i, false, out);
  }
  return out;
}

Row op_row(const RuleOp& op, const std::string& left, const std::string& right, const std::string& reason) {
  Row row = failed_row(op.index, left, right, reason);
  row.op_type = op.type;
  row.sequence = op.sequence;
  return row;
}

void append(GroupResult& result, OpRows from) {
  for (Row& row : from.rows) result.rows.push_back(std::move(row));
  for (std::string& warning : from.warnings) result.warnings.push_back(std::move(warning));
}

// One NPU operator for one or several golden ones: every operator is compared separately.
void compare_any_to_one(const Comparison& comparison, const Group& group, const Hands& hands, GroupResult& result) {
  for (const std::size_t i : group.ops) {
    const RuleOp& op = comparison.rules.ops[i];
    if (op.is_left_out) continue;
    const std::string origins = op.origins_text();
    const std::string right = origins.empty() ? "*" : origins;
    OpRows rows = compare_op({comparison, op, op.name, right, hands});
    if (rows.failure) {
      result.status = rows.failure->status;
      result.warnings.push_back(rows.failure->reason);
    } else if (rows.tensor_status != Code::ok) {
      result.status = rows.tensor_status;
    }
    result.matched |= !rows.rows.empty();
    if (rows.rows.empty()) {
      rows.rows.push_back(op_row(op, op.name, right, rows.failure ? rows.failure->reason : ""));
    }
    append(result, std::move(rows));
  }
}

// Several NPU operators: all rows show all names.
void compare_several(const Comparison& comparison, const Group& group, const std::vector<std::size_t>& ops,
                     const Hands& hands, GroupResult& result) {
  const auto [left, right] = comparison.rules.names(group);
  std::string reasons;
  const auto add_reason = [&](const std::string& reason) { reasons += (reasons.empty() ? "" : ",") + reason; };
  bool has_rows = false;
  for (const std::size_t i : ops) {
    const RuleOp& op = comparison.rules.ops[i];
    if (op.is_left_out) continue;
    if (op.is_inner() && comparison.rules.relation(group) != Relation::l1_fusion) {
      add_reason(fmt::format("[{}] an inner operator of a relation of many to many", op.name));
      continue;
    }
    OpRows rows = compare_op({comparison, op, left, right, hands});
    if (rows.failure) {
      result.status = rows.failure->status;
      result.warnings.push_back(rows.failure->reason);
      if (rows.failure->status == Code::no_dump_file) {
        add_reason(rows.failure->reason);
        continue;
      }
    } else if (rows.tensor_status != Code::ok) {
      result.status = rows.tensor_status;
    }
    has_rows = result.matched = true;
    if (rows.rows.empty()) {
      rows.rows.push_back(op_row(op, left, right, rows.failure ? rows.failure->reason : ""));
    }
    append(result, std::move(rows));
  }
  if (!has_rows) result.rows.push_back(op_row(comparison.rules.ops[group.ops[0]], left, right, reasons));
}

// The first and the last operator that ran: the inputs of the first and the outputs of the last are complete.
void compare_l1(const Comparison& comparison, const Group& group, const Hands& hands, GroupResult& result) {
  std::vector<std::pair<std::uint64_t, std::size_t>> by_time;
  for (const std::size_t i : group.ops) {
    const OpFiles* files = comparison.left.find(comparison.rules.ops[i].name, std::nullopt);
    if (files != nullptr) by_time.emplace_back(files->timestamp, i);
  }
  std::ranges::stable_sort(by_time, {}, &std::pair<std::uint64_t, std::size_t>::first);
  if (by_time.empty()) {
    const auto [left, right] = comparison.rules.names(group);
    result.status = Code::no_dump_file;
    result.rows.push_back(op_row(comparison.rules.ops[group.ops[0]], left, right,
                                 fmt::format("[{}] there is no dump file of this group", left)));
    return;
  }
  const std::size_t first = by_time.front().second, last = by_time.back().second;
  std::vector<std::size_t> ops = {last};
  if (comparison.rules.ops[first].origins != comparison.rules.ops[last].origins) ops = {first, last};
  compare_several(comparison, group, ops, hands, result);
}

}  // namespace

bool compares_inputs(const RuleOp& op) {
  const bool dequantises = op.type == "AscendDequant" || op.name.ends_with("_dequant_layer") ||
                           op.name.ends_with("AscendDequant") || op.name.ends_with("_dequant");
  return !dequantises;
}
bool compares_outputs(const RuleOp& op) { return op.type != "AscendQuant"; }

Outcome<Golden> find_golden(const Comparison& comparison, const RuleOp& op, std::size_t index, bool is_input) {
  Producer from{&op, static_cast<std::int64_t>(index)};
  bool is_first = is_input;
  // At most as many steps as there are operators: a rule file may contain a cycle.
  for (std::size_t steps = 0; is_first || passes_through(*from.op); ++steps) {
    const Outcome<Producer> next = producer_of(comparison.rules, *from.op, from.index);
    if (!next) return next.failure();
    if (steps > comparison.rules.ops.size()) {
      return Failure{Code::invalid_rule, fmt::format("[{}] its inputs go round in a circle", op.name)};
    }
    from = *next;
    is_first = false;
  }
  const std::vector<OriginOutput>& outputs = from.op->outputs;
  const auto no_file = [&](std::string_view why) {
    return Failure{Code::no_dump_file,
                   fmt::format("there is no dump file of the ground truth: {}:{} {}", from.op->name, from.index, why)};
  };
  if (outputs.empty()) return no_file("is not described in the rule file");
  const auto place = static_cast<std::size_t>(from.index);
  Golden golden;
  golden.origin = outputs[place < outputs.size() ? place : 0];
  if (golden.origin.name.empty()) return no_file("comes from no golden operator");
  golden.index = golden.origin.index.value_or(from.index);
  golden.producer = from.op->name;
  golden.producer_index = from.index;
  const bool is_npu = comparison.right.kind == DumpKind::offline;
  golden.files = comparison.right.find(golden.origin.name, is_npu ? std::nullopt : std::optional(golden.index));
  return golden;
}

Outcome<Aligned> align_with_golden(const Comparison& comparison, const RuleOp& op, const DumpTensor& left,
                                   const Golden& golden, AlignFor purpose, const Hands& hands,
                                   std::string& right_path) {
  const Outcome<DumpOp> right = read_op(*golden.files);
  if (!right) return Failure{Code::invalid_dump_data, "ground truth: " + right.failure().reason};
  right_path = right->path;
  const bool is_npu = comparison.right.kind == DumpKind::offline;
  const std::size_t place = is_npu ? static_cast<std::size_t>(golden.index) : 0;
  if (place >= right->outputs.size()) {
    return Failure{Code::out_of_range, fmt::format("[{}] '{}' has {} outputs: there is no output {}", op.name,
                                                   right->path, right->outputs.size(), place)};
  }
  const DumpTensor& right_tensor = right->outputs[place];
  GoldenLayout layout{golden.origin.format, golden.origin.shape};
  if (is_npu) {
    const std::string_view name = name_of(static_cast<Format>(right_tensor.format));
    layout = {name.empty() ? "unnamed" : std::string(name), right_tensor.shape};
  }
  if (!left.original_shape.empty()) layout.shape = left.original_shape;
  const bool are_golden = comparison.left.kind == DumpKind::quant && comparison.right.kind == DumpKind::standard;
  if (are_golden) return align_as_they_are(left, right_tensor);
  return align_by_rule(left, right_tensor, std::move(layout), purpose, hands.threads);
}

void take_from_producers(std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::int64_t>, Row> outputs;
  for (const Row& row : rows) {
    if (row.slice && !row.slice->is_input) outputs.insert_or_assign({row.slice->op, row.slice->number}, row);
  }
  if (outputs.empty()) return;
  for (Row& row : rows) {
    if (!row.slice || !row.slice->is_input) continue;
    const auto output = outputs.find({row.slice->producer, row.slice->producer_output});
    if (output == outputs.end()) continue;
    row.shape = output->second.shape;
    row.overflow = output->second.overflow;
    row.values = output->second.values;
    row.reason = output->second.reason;
  }
}

GroupResult compare_group(const Comparison& comparison, const Group& group, const Hands& hands) {
  GroupResult result;
  switch (comparison.rules.relation(group)) {
    case Relation::one_to_one:
    case Relation::many_to_one:
      compare_any_to_one(comparison, group, hands, result);
      break;
    case Relation::one_to_many:
    case Relation::many_to_many:
      compare_several(comparison, group, group.ops, hands, result);
      break;
    case Relation::l1_fusion:
      compare_l1(comparison, group, hands, result);
      break;
  }
  return result;
}

}  // namespace sonde::msaccucmp
