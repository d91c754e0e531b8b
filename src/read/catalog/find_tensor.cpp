#include "read/catalog/find_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "read/catalog/data_flow.h"
#include "read/catalog/slot_text.h"

namespace sonde {
namespace {

// "…/conv2d-op0:output.0" taken apart; no slot when the text does not end like that.
struct TensorQuery {
  std::string name;
  bool has_slot = false;
  bool is_input = false;
  std::uint32_t slot = 0;
};

TensorQuery query_of(const std::string& text) {
  TensorQuery query{text};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return query;
  std::string_view slot = std::string_view(text).substr(colon + 1);
  for (const std::string_view side : {"input.", "output."}) {
    if (!slot.starts_with(side)) continue;
    const std::string_view number = slot.substr(side.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), query.slot);
    if (error != std::errc() || end != number.data() + number.size()) continue;
    query.has_slot = true;
    query.is_input = side == "input.";
    query.name = text.substr(0, colon);
    return query;
  }
  return query;
}

bool is_slot(const CatalogTensor& tensor, const TensorQuery& query) {
  return tensor.is_input == query.is_input && tensor.slot == query.slot;
}

// The slot that was asked for, else the first output that was recorded, else the first slot that was, else any.
CatalogTensor* slot_of(CatalogOp& op, const TensorQuery& query) {
  CatalogTensor* best = nullptr;
  const auto worth = [](const CatalogTensor& t) { return 2 * t.recorded() + !t.is_input; };
  for (CatalogTensor& tensor : op.tensors) {
    if (query.has_slot && is_slot(tensor, query)) return &tensor;
    if (!query.has_slot && (best == nullptr || worth(tensor) > worth(*best))) best = &tensor;
  }
  return best;
}

// Full names that mean `name`: itself, or all that end with `/name`.
std::vector<std::string_view> names_meant(const std::vector<SelectedStep>& steps, std::string_view name) {
  std::vector<std::string_view> names;
  for (const SelectedStep& step : steps) {
    for (const CatalogOp* op : step.ops) {
      if (op->op_name == name) return {op->op_name};
      if (means_op(name, op->op_name) && std::ranges::find(names, op->op_name) == names.end()) {
        names.push_back(op->op_name);
      }
    }
  }
  return names;
}

// The first recorded tensor with this name (a gradient, a state) or of this file.
template <typename Accepts>
FoundTensor find_tensor(std::vector<SelectedStep>& steps, Accepts accepts) {
  FoundTensor found;
  for (SelectedStep& step : steps) {
    for (CatalogOp* op : step.ops) {
      for (CatalogTensor& tensor : op->tensors) {
        if (!accepts(step, tensor) || (found.tensor != nullptr && !tensor.recorded())) continue;
        if (found.tensor == nullptr || !found.tensor->recorded()) found = {&step, op, &tensor};
      }
    }
  }
  return found;
}

// A slot of the op with this full name. If it has no such slot, `wrong` lists the existing ones.
FoundTensor find_slot(std::vector<SelectedStep>& steps, std::string_view op_name, const TensorQuery& query,
                      std::string& wrong) {
  FoundTensor best;
  std::vector<std::string> slots;
  for (SelectedStep& step : steps) {
    for (CatalogOp* op : step.ops) {
      if (op->op_name != op_name) continue;
      if (slots.empty()) {
        for (const CatalogTensor& tensor : op->tensors) slots.push_back(slot_text(tensor));
      }
      CatalogTensor* tensor = slot_of(*op, query);
      if (tensor == nullptr || (best.tensor != nullptr && !tensor->recorded())) continue;
      if (best.tensor == nullptr || !best.tensor->recorded()) best = {&step, op, tensor};
    }
  }
  if (best.tensor == nullptr) {
    wrong = fmt::format("'{}' does not have this slot; it has {}", op_name,
                        slots.empty() ? "none" : fmt::format("{}", fmt::join(slots, ", ")));
  }
  return best;
}

// An output of an op of the run; or, without an op, the tensor with this name in its step.
struct Value {
  const CatalogOp* op = nullptr;
  std::uint32_t slot = 0;
  std::string_view name;
};

Value value_of(const FoundTensor& found, const DataFlow& flow) {
  if (found.op->is_parameter) return {nullptr, 0, found.op->op_name};
  if (!found.tensor->is_input) return {found.op, found.tensor->slot, {}};
  const std::optional<DataFlow::Maker> maker = flow.maker(*found.tensor);
  if (maker) return {maker->op, maker->slot, {}};
  return {nullptr, 0, found.tensor->parameter};
}

std::string writer_text(const Value& value) {
  return value.slot == kInnerSlot ? fmt::format("the inside of {}", value.op->op_name)
                                  : fmt::format("{}:output.{}", value.op->op_name, value.slot);
}

}  // namespace

bool means_op(std::string_view name, std::string_view op_name) {
  if (op_name == name) return true;
  // If names come from file names only, `_` replaces `/`.
  const char separator = op_name.find('/') != std::string_view::npos ? '/' : '_';
  return op_name.size() > name.size() && op_name.ends_with(name) &&
         op_name[op_name.size() - name.size() - 1] == separator;
}

std::string op_part(const std::string& text) { return query_of(text).name; }

FoundTensor find_by_name(std::vector<SelectedStep>& steps, const std::string& text, std::string& wrong) {
  const TensorQuery query = query_of(text);
  const std::vector<std::string_view> names = names_meant(steps, query.name);
  if (names.size() == 1) return find_slot(steps, names[0], query, wrong);
  if (names.size() > 1) {
    wrong = fmt::format("'{}' may mean {} ops, such as {} and {}", query.name, names.size(), names[0], names[1]);
    return {};
  }
  const auto is_named = [&](const SelectedStep&, const CatalogTensor& tensor) {
    return tensor.parameter == query.name && (!query.has_slot || is_slot(tensor, query));
  };
  const FoundTensor found = find_tensor(steps, is_named);
  if (found.tensor == nullptr) {
    const std::string near = nearest_ops(steps, query.name);
    wrong = fmt::format("no op or tensor '{}'{}{}", query.name, near.empty() ? "" : "; ", near);
  }
  return found;
}

FoundTensor find_by_file(std::vector<SelectedStep>& steps, const std::string& text) {
  std::error_code ignored;
  const std::filesystem::path wanted = std::filesystem::weakly_canonical(text, ignored);
  return find_tensor(steps, [&](const SelectedStep& step, const CatalogTensor& tensor) {
    return !tensor.file.empty() && (tensor.file == text || step.rank->directory / tensor.file == wanted ||
                                    std::filesystem::path(tensor.file).filename() == text);
  });
}

Flow flow_of(const std::vector<SelectedStep>& steps, const FoundTensor& found) {
  const auto in_run = [&](const SelectedStep& step) {
    return step.rank == found.step->rank && step.step->run == found.step->step->run;
  };
  DataFlow makers(*found.step->rank);
  for (const SelectedStep& step : steps) {
    if (!in_run(step)) continue;
    for (const CatalogOp& op : step.step->ops) {
      if (!op.is_parameter) makers.add(op);
    }
  }
  const Value value = value_of(found, makers);
  const auto is_read = [&](const CatalogTensor& input, bool same_step) {
    if (DataFlow::same_origin(input, *found.tensor)) return true;
    const std::optional<DataFlow::Maker> maker = makers.maker(input);
    if (value.op != nullptr) return maker && maker->op == value.op && maker->slot == value.slot;
    return same_step && !value.name.empty() && input.parameter == value.name;
  };
  Flow flow;
  // An output of the op itself has no other source.
  if (found.tensor->is_input && value.op != nullptr) flow.written_by = writer_text(value);
  for (const SelectedStep& step : steps) {
    if (!in_run(step)) continue;
    for (const CatalogOp& op : step.step->ops) {
      for (const CatalogTensor& input : op.tensors) {
        if (!input.is_input || &input == found.tensor || !is_read(input, step.step == found.step->step)) continue;
        flow.read_by.push_back(name_of(op, input));
      }
    }
  }
  return flow;
}

}  // namespace sonde
