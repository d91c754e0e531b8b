// The roots of a ValueFlow, from the flags and ends of its values, each with its path.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "ask/first_bad/flow_facts.h"
#include "ask/first_bad/value_flow.h"
#include "ground/base/shape.h"

namespace sonde {
namespace {

constexpr std::size_t kAbsorbersShown = 3;

bool is_arithmetic(std::string_view type) { return type == "add" || type == "sub" || type == "rsub" || type == "mul"; }

}  // namespace

void ValueFlow::find_roots() {
  for (std::uint32_t index = 0; index < values_.size(); ++index) {
    const Value& value = values_[index];
    for (const BadKind kind : kKinds) {
      if (!has(health_of_value(index), kind)) continue;
      if (value.op == kOutside) {
        const auto reader = std::ranges::find_if(value.readers, [&](const Reader& r) {
          const Input& input = ops_[r.op].inputs[r.input];
          return !ops_[r.op].is_next && input.is_read && has(health_of(input), kind);
        });
        if (reader == value.readers.end()) continue;
        add_root(RootKind::external, index, kind, reader->op, ops_[reader->op].inputs[reader->input].tensor);
      } else if (!ops_[value.op].is_next && value.root[at(kind)]) {
        // Earlier contents of memory belong to no op, until they reach something that matters.
        if (ops_[value.op].nature.uninitialised && value.ends[at(kind)] < End::scaler) continue;
        const bool overwritten = value.root[at(kind)] == RootKind::overwritten;
        add_root(*value.root[at(kind)], index, kind, value.op,
                 overwritten ? value.overwritten[at(kind)] : value.tensor);
      }
    }
  }
  sort_roots();
}

void ValueFlow::add_root(RootKind kind, std::uint32_t value, BadKind bad, std::uint32_t op,
                         const CatalogTensor* tensor) {
  Root root;
  root.kind = kind;
  root.bad = bad;
  root.op = op;
  root.tensor = tensor;
  root.value = value;
  root.end = values_[value].ends[at(bad)];
  inputs_of(ops_[op], values_[value].slot, &root.inputs_known);
  if (root.end < End::scaler && bad == BadKind::inf && kind == RootKind::created) {
    root.path = lost_behind(value);
    root.lost = !root.path.empty();
    if (root.lost) root.end = scaler_skipped_ ? End::scaler : End::matters;
  }
  if (const std::uint32_t empty = kind == RootKind::created ? unwritten(ops_[op]) : kOutside; empty != kOutside) {
    root.op = empty;
    root.tensor = ops_[empty].outputs.empty() ? nullptr : values_[ops_[empty].outputs[0]].tensor;
  }
  const bool meant = bad == BadKind::inf && (kind == RootKind::placed || kind == RootKind::external);
  if (meant && !values_[value].leaked) {
    // It counts as itself only if it arrives unchanged; a converted value has a root of its own.
    const End pure = values_[value].pure[at(bad)];
    if (root.end > End::unread && pure < End::scaler) return;
    root.end = pure < End::scaler ? End::absorbed : pure;
  }
  root.aside = is_aside(root);
  (root.end == End::absorbed ? healthy_ : roots_).push_back(std::move(root));
}

// Follows bad values from reader to reader. `look` decides at each: the end of the search, on through its results, or past.
template <class Look>
bool ValueFlow::follow_bad(std::uint32_t from, const Look& look) {
  constexpr std::size_t kMostFollowed = 4096;
  std::vector<std::uint32_t> open = {from};
  std::set<std::uint32_t> seen;
  while (!open.empty() && seen.size() < kMostFollowed) {
    const std::uint32_t index = open.back();
    open.pop_back();
    if (!seen.insert(index).second || !health_of_value(index).bad()) continue;
    for (const Reader& reader : values_[index].readers) {
      const Op& op = ops_[reader.op];
      const Follow next = look(op, op.inputs[reader.input]);
      if (next == Follow::found) return true;
      if (next == Follow::on) open.insert(open.end(), op.outputs.begin(), op.outputs.end());
    }
  }
  return false;
}

// The model reads what the program made outside of it: the next step of a sampler, the parameters of a training without
// an optimizer. Of a step that trains, modules that only count (a metric of a library) do not matter.
bool ValueFlow::feeds_model(const Root& root) {
  if (ops_[root.op].phase == Phase::forward) return false;
  return follow_bad(root.value, [&](const Op& op, const Input& input) {
    if (!input.is_read || !health_of(input).bad() || op.nature.tests_finite) return Follow::past;
    const bool computes = op.nature.mixes || !is_data(*input.tensor);
    return op.phase == Phase::forward && (!trains_ || computes) ? Follow::found : Follow::on;
  });
}

// Only the program reads it: a metric beside a training that continues, or one that is computed outside of the model.
bool ValueFlow::is_aside(const Root& root) {
  if (root.end != End::unread || inferred() || feeds_model(root)) return false;
  return trains_ || (has_modules_ && ops_[root.op].phase == Phase::outside);
}

// The op that returned the memory, if this op reads such memory before it was written.
std::uint32_t ValueFlow::unwritten(const Op& op) const {
  for (const Input& input : op.inputs) {
    if (!input.is_read || input.tensor->skipped != kUninitialised) continue;
    std::optional<std::uint32_t> index = input.value;
    for (std::size_t depth = 0; index && depth < kLongestPath; ++depth) {
      if (values_[*index].op == kOutside) break;
      if (ops_[values_[*index].op].nature.uninitialised) return values_[*index].op;
      index = older(*index);
    }
  }
  return kOutside;
}

const Root* ValueFlow::root_of(std::uint64_t sequence, std::uint32_t slot) {
  const auto maker = std::ranges::find_if(ops_, [&](const Op& op) { return op.op->sequence == sequence; });
  if (maker == ops_.end() || maker->is_next) return nullptr;
  const auto wanted = std::ranges::find(maker->outputs, slot, [&](std::uint32_t value) { return values_[value].slot; });
  if (wanted == maker->outputs.end()) return nullptr;
  for (const std::vector<Root>* roots : {&roots_, &healthy_}) {
    for (const Root& root : *roots) {
      if (root.kind != RootKind::placed && reaches(root.value, *wanted)) return &root;
    }
  }
  return nullptr;
}

bool ValueFlow::reaches(std::uint32_t from, std::uint32_t to) {
  return from == to || follow_bad(from, [&](const Op& op, const Input&) {
           return std::ranges::find(op.outputs, to) != op.outputs.end() ? Follow::found : Follow::on;
         });
}

bool ValueFlow::reaches_next(const Root& root, std::string_view op_name, std::uint32_t slot) {
  return follow_bad(root.value, [&](const Op& op, const Input& input) {
    if (op.is_next && op.op->op_name == op_name && input.tensor->slot == slot) return Follow::found;
    return op.is_next ? Follow::past : Follow::on;
  });
}

void ValueFlow::sort_roots() {
  const auto key = [](const Root& root) {
    const int tier = root.end == End::matters ? 0 : root.end == End::scaler ? 2 : 1;
    return std::tuple(tier, root.op, root.kind, root.bad);
  };
  std::ranges::stable_sort(roots_, [&](const Root& a, const Root& b) { return key(a) < key(b); });
  std::ranges::stable_sort(healthy_, {}, &Root::op);
  for (Root& root : roots_) {
    if (!root.lost) trace(root);
  }
  for (Root& root : healthy_) trace(root);
}

// The path to the worst end; for an absorbed value, its absorbers.
void ValueFlow::trace(Root& root) {
  root.path.push_back(root.op);
  if (root.op != values_[root.value].op && values_[root.value].op != kOutside && root.kind == RootKind::created) {
    root.path.push_back(values_[root.value].op);
  }
  std::set<std::pair<std::uint32_t, BadKind>> seen;
  std::vector<std::pair<std::uint32_t, BadKind>> open = {{root.value, root.bad}};
  std::set<std::uint32_t> absorbers;
  while (!open.empty() && seen.size() < 4096) {
    const auto [index, kind] = open.back();
    open.pop_back();
    if (!seen.emplace(index, kind).second) continue;
    const Value& value = values_[index];
    std::pair<std::uint32_t, BadKind> worst{~0U, kind};
    End worst_end = End::absorbed;
    for (const Reader& reader : value.readers) {
      const Op& op = ops_[reader.op];
      if (!op.inputs[reader.input].is_read) continue;
      bool goes_on = false;
      for (const std::uint32_t output : op.outputs) {
        for (const BadKind next : kKinds) {
          if (!feeds(op, op.inputs[reader.input], values_[output].slot)) continue;
          if (!passes(value.flags[at(kind)], kind, op, output, next)) continue;
          goes_on = true;
          root.harms = root.harms || (values_[output].root[at(next)] == RootKind::converted &&
                                      values_[output].ends[at(next)] > End::absorbed);
          const End end = values_[output].ends[at(next)];
          if (root.end == End::absorbed) open.emplace_back(output, next);
          if (root.end != End::absorbed && end > worst_end) {
            worst_end = end;
            worst = {output, next};
          }
        }
      }
      const bool only_asks = op.nature.tests_finite && bare_type(op.op->op_type) != "nantonum";
      // A product of it no longer contains a mask, and NaN added to an infinity hides it.
      const bool is_bad =
          (op.nature.mixes || is_arithmetic(bare_type(op.op->op_type))) &&
          std::ranges::any_of(op.outputs, [&](std::uint32_t output) { return health_of_value(output).bad(); });
      root.drowned = root.drowned || (!goes_on && is_bad);
      if (!goes_on && !only_asks && !is_bad) absorbers.insert(reader.op);
    }
    if (worst.first != ~0U && root.path.size() < kLongestPath) {
      root.path.push_back(values_[worst.first].op);
      open.push_back(worst);
    }
  }
  for (const std::uint32_t op : absorbers) {
    if (root.absorbed_by.size() < kAbsorbersShown) root.absorbed_by.push_back(op);
  }
}

}  // namespace sonde
