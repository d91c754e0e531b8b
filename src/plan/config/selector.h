// Selector: decides what to record of an op or a parameter under one plan.
//
//   Selector selector(plan);
//   if (selector.decide_op("Default/network-Net/conv1-Conv2d/conv2d-op0", "conv2d").outputs) ...
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/config/plan.h"

namespace sonde {

// The kind of an entry of `kernels`: "name-regex(…)", a text with '/' or "-op", anything else. Older releases have
// fewer: 2.0 no expressions, 1.2 and 1.3 full names only.
enum class EntryKind : std::uint8_t { regex, op_name, op_type };
EntryKind kind_of_entry(std::string_view entry, Release release = Release::v2_7);
// True if `entry` is `op_name` as written in file names: with `_` (2.3 on) or `--` (up to 2.0) as the separator.
bool is_name_in_files(std::string_view entry, std::string_view op_name);
// The expression inside "name-regex(…)"; only for EntryKind::regex.
std::string_view expression_of(std::string_view entry);

// Not synchronised: the owner calls it under its own lock.
class Selector {
 public:
  // The op or parameter in question.
  struct AskedOp {
    std::string_view op_name;     // as the layout gives it
    std::string_view op_type;     // the ATen base name (`relu_`)
    std::string_view scope = {};  // `network-AlexNet/conv1-Conv2d`; its first part is the model. Empty: outside
    bool flagged = false;         // set_dump was called for it: used under dump_mode 2 only
    std::uint32_t graph = 0;      // 0 training, others without gradients
  };
  struct Wanted {
    bool inputs = false;
    bool outputs = false;
    bool watched = false;    // scene watcher: its outputs are written again after every op that `checks`
    bool checks = false;     // scene watcher: after this op the outputs of all watched ops are written
    bool producers = false;  // a collective; the makers of its inputs must be recorded as well: add_producer()
    const std::vector<SlotName>* except = nullptr;  // slots excluded by a black-list; lives as long as the Selector

    bool any() const { return inputs || outputs; }
    bool slot(bool is_input, std::uint32_t index) const;  // true if this one must be recorded
    bool excludes(bool is_input, std::uint32_t index) const;
    friend bool operator==(const Wanted&, const Wanted&) = default;
  };
  // An entry of the plan that nothing matched.
  struct UnusedEntry {
    std::string key;  // "kernels", "dump_list[0].layer"
    std::string text;
    std::vector<std::string> nearest;  // up to three of the names (or op types) that were asked about
    std::string instead;               // "linear by mul, sum": it names ops that others compute
  };

  explicit Selector(const Plan& plan);  // copies what it needs
  ~Selector();
  Selector(Selector&&) noexcept;

  // The answer for a name never changes, except with in_order(), or by add_producer() for it.
  Wanted decide_op(const AskedOp& op);
  Wanted decide_op(std::string_view op_name, std::string_view op_type, bool flagged = false) {
    return decide_op(AskedOp{op_name, op_type, {}, flagged});
  }
  // Parameters, buffers, gradients, constants: recorded if outputs are, and if `name` is selected like an op's.
  bool decide_parameter(std::string_view name);
  // acl.json, TorchAir: an entry of the list names this parameter, or these data; then they are recorded with the first
  // op of the step that reads them, selected or not. Without `scope`, that of the reader: if its model fits.
  bool names_parameter(std::string_view name) const;
  bool decide_parameter_by_name(std::string_view name, std::string_view scope);

  // opname_range: the selection depends on the ops before it. Then decide_op() must be called for every op of a
  // recorded step, in the order in which they run, and each step begins with begin_step().
  bool in_order() const;
  void begin_step(std::uint32_t graph);
  // acl.json, TorchAir: parameters and data are recorded only with the selected ops that read them.
  bool parameters_follow_ops() const;
  // MindSpore up to 2.3, asynchronous: the producers of a selected collective are selected from now on, by full name.
  bool follows_producers() const;
  void add_producer(std::string_view op_name);

  // Whether an entry names this op, which does not run. `replaced_by`: the types of ops that compute it, for unused().
  bool names(const AskedOp& op, std::string_view replaced_by);
  // The numbers at the end of the plan's names, and 0. Empty: it names no op.
  const std::vector<std::uint32_t>& numbers_named() const;

  // In the order of the plan; for `kernels` only under dump_mode 1. Suggestions are made for the first 20 only.
  std::vector<UnusedEntry> unused() const;

 private:
  struct State;
  bool selected(const AskedOp& op);
  std::unique_ptr<State> state_;
};

}  // namespace sonde
