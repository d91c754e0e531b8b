// ValueFlow: the origins and effects of the NaN and infinities of a step, along its data flow.
//
// An output that holds NaN or infinity *has* that kind. A kind has a root, where the op's inputs do not explain it, and
// an end. It matters if a path leads from it to a gradient, a parameter, the loss, or to no reader; it is absorbed if
// every op that reads it gives finite results. The exact rules: docs/first-bad.md.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/catalog/data_flow.h"
#include "read/measure/health.h"
#include "read/operators/op_nature.h"

namespace sonde {

enum class BadKind : std::uint8_t { nan = 0, inf = 1 };

// The worst end of a value; larger is worse.
enum class End : std::uint8_t {
  absorbed,  // every reader gives finite results
  unknown,   // the dump lacks the results of its readers
  unread,    // it has no reader in the dump, or only the program itself: a number, a check whether it is finite
  decides,   // NaN goes into a comparison or an index that other ops read
  scaler,    // a gradient, and the loss scaler skipped the optimizer
  matters,   // a gradient, a parameter, optimizer state, or the loss
};
std::string_view word_of(End end);

enum class RootKind : std::uint8_t {
  created,      // finite inputs, computed
  placed,       // finite inputs, and an op that writes a value chosen by the program: masked_fill, where, full
  external,     // nothing in the dump made it: input data, a parameter, a constant, an earlier step
  overwritten,  // the op that made it recorded other values than its reader
  converted,    // from placed or external infinities the op made NaN, or infinities of the other sign
};

struct Root {
  RootKind kind = RootKind::created;
  BadKind bad = BadKind::nan;
  std::uint32_t op = 0;                   // index into ops(): its maker; external and overwritten: its first reader
  const CatalogTensor* tensor = nullptr;  // output of the op; external and overwritten: its input
  std::uint32_t value = 0;
  End end = End::absorbed;
  bool inputs_known = true;                // false: some inputs of the op were not recorded
  bool aside = false;                      // unread, beside a training that continues: a metric, a printed number
  bool lost = false;                       // through a quotient it makes zeros of tensors that were not zero
  bool harms = false;                      // an op makes NaN of it that is not healthy
  bool drowned = false;                    // its readers give NaN or infinities for another reason
  std::vector<std::uint32_t> absorbed_by;  // ops, the first few
  std::vector<std::uint32_t> path;         // ops from the root to the end, the root's first
};

// The start of backward, for all steps of a run: line, file and type of the op that makes the loss.
using LossPlaces = std::set<std::tuple<std::string_view, std::uint32_t, std::string_view>>;
LossPlaces loss_places(const CatalogRank& rank);
// Ops of this type may read the loss and make its gradient.
bool begins_backward(std::string_view op_type);

class ValueFlow {
 public:
  struct Input {
    const CatalogTensor* tensor = nullptr;
    std::uint32_t value = 0;  // its source
    bool is_read = true;      // false: only its shape counts, or it is overwritten
    bool is_unsaid = false;   // another record contains it, but this op reads it too: see add_unsaid
  };
  struct Op {
    const CatalogOp* op = nullptr;
    OpNature nature;
    Phase phase = Phase::forward;
    bool is_next = false;  // of the step after
    // msprobe's record of the backward run of the function that gave it its type; facts about the function do not
    // apply.
    bool is_reversed = false;
    std::vector<Input> inputs;
    std::vector<std::uint32_t> outputs;  // values
  };

  struct Options {
    bool inputs_before = true;    // inputs are in the state before their operator
    bool only_overflows = false;  // the dump holds only ops that overflowed: missing ones were finite
    const LossPlaces* losses = nullptr;
  };
  // Step `step` of the rank; the step after it shows which ops read its final state.
  ValueFlow(const CatalogRank& rank, std::size_t step, HealthReader& health, Options options);

  // Worst and earliest first. Those whose end is `absorbed` are in `healthy`.
  const std::vector<Root>& roots() const { return roots_; }
  const std::vector<Root>& healthy() const { return healthy_; }

  const std::vector<Op>& ops() const { return ops_; }
  Health health_of(const Input& input);
  Health health_of_value(std::uint32_t value);
  // The maker of this input; null: none in these two steps.
  const Op* maker(const Input& input) const;
  // The maker's record of it; null: none.
  const CatalogTensor* made(const Input& input) const;
  std::uint32_t index_of(const Op& op) const { return static_cast<std::uint32_t>(&op - ops_.data()); }

  bool inferred() const { return inferred_ || !has_edges_; }  // the dump does not say, or only in part: see infer_edges
  bool has_edges() const { return has_edges_; }               // the dump says which op reads which output
  // Whether the bad result of the root reaches the op of the next step with this name, as its input `slot`.
  bool reaches_next(const Root& root, std::string_view op_name, std::uint32_t slot);
  // Made before backward begins, and not by the scale of the loss.
  bool born_before_scale(const Root& root);
  std::optional<double> loss_scale();  // of this step; empty: unknown
  // The root of what the op with this sequence wrote in this step, asides and healthy ones included; null: none.
  const Root* root_of(std::uint64_t sequence, std::uint32_t slot);
  bool scaler_skipped() const { return scaler_skipped_; }  // the loss scaler found infinities and no optimizer ran
  std::uint64_t tensors() const { return tensors_; }       // of the step, with known facts

 private:
  struct Reader {
    std::uint32_t op = 0, input = 0;
  };
  static constexpr std::uint32_t kOutside = ~0U;
  struct Value {
    std::uint32_t op = kOutside, slot = 0;
    const CatalogTensor* tensor = nullptr;  // null: seen by its readers only
    std::vector<Reader> readers;
    End ends[2] = {};
    End pure[2] = {};                                          // along paths on which the kind stays the same
    std::uint8_t flags[2] = {};                                // RootKinds as bits
    std::optional<RootKind> root[2];                           // set if it begins here
    const CatalogTensor* overwritten[2] = {nullptr, nullptr};  // the input for which its maker recorded other values
    bool leaked = false;  // a placed or external infinity that some op multiplies like any number
    bool health_known = false;
    Health health;
  };
  // The effects of a value on its readers.
  struct Reading {
    End worst = End::absorbed;
    bool is_read = false;   // by an op that computes something from it
    bool is_asked = false;  // whether it is finite
  };

  // value_flow.cpp: ops, values and the known facts about them
  void add_step(const CatalogStep& step, bool is_next);
  void add_op(const CatalogOp& op, bool is_next);
  std::uint32_t value_of(std::uint32_t op, std::uint32_t slot);
  std::uint32_t outside_value(const CatalogTensor& tensor);
  std::uint32_t add_value(std::uint32_t op, std::uint32_t slot, const CatalogTensor* tensor);
  void join(std::uint32_t op, std::uint32_t input, std::uint32_t value);
  void find_scaler();
  void find_read_gradients();
  std::optional<std::uint32_t> older(std::uint32_t value) const;
  bool feeds(const Op& op, const Input& input, std::uint32_t output_slot) const;
  Health inputs_of(const Op& op, std::uint32_t output_slot, bool* all_known = nullptr);

  // flow_edges.cpp: edges that the dump does not contain
  void infer_edges();
  void add_unsaid();
  void add_unsaid(std::uint32_t op, std::uint32_t other, bool outputs_too);
  void add_unsaid_value(std::uint32_t op, std::uint32_t value);
  void look_behind_views();
  bool covers(std::uint32_t value, const CatalogTensor& read) const;

  // flow_origins.cpp: flags
  void find_flags();
  void find_flags(std::uint32_t value, BadKind kind);
  void find_leak(const Op& op, std::uint32_t slot);
  std::optional<std::uint32_t> leak_of(const Op& op, const Input& input);

  // flow_ends.cpp: ends
  void find_ends();
  End end_of(const Value& value, BadKind kind, bool pure);
  End end_of_outputs(const Op& op, const Input& input, std::uint8_t flags, BadKind kind, bool pure);
  End end_of_output(const Op& op, std::uint32_t output, std::uint8_t flags, BadKind kind, bool pure, bool& is_bad);
  bool passes(std::uint8_t flags, BadKind kind, const Op& op, std::uint32_t output, BadKind next);
  void look_at_reader(const Value& value, const Reader& reader, BadKind kind, bool pure, Reading& reading);
  bool steers(const Op& op) const;
  bool is_self_compared(const Value& value, const Op& op, std::uint32_t index) const;
  End own_end(const Value& value);
  bool is_dropped(const Value& value) const;
  bool comes_from_backward(std::uint32_t value) const;
  bool is_updated_parameter(const Value& value) const;
  End end_unread(const Value& value, BadKind kind, bool is_asked);
  bool is_loss(const Value& value) const;
  bool is_loss_elsewhere(const Value& value) const;
  bool is_scaled_loss(const Value& value);
  bool is_state(const Value& value) const;

  // flow_roots.cpp: roots
  void find_roots();
  void add_root(RootKind root, std::uint32_t value, BadKind kind, std::uint32_t op, const CatalogTensor* tensor);
  bool is_aside(const Root& root);
  enum class Follow : std::uint8_t { found, on, past };
  template <class Look>
  bool follow_bad(std::uint32_t from, const Look& look);  // in flow_roots.cpp
  bool feeds_model(const Root& root);
  bool reaches(std::uint32_t from, std::uint32_t to);
  std::uint32_t unwritten(const Op& op) const;
  void sort_roots();
  void trace(Root& root);

  // flow_lost.cpp: infinities that a quotient turns into zeros
  struct Passing {
    bool is_zero = false, has_log = false;  // has_log: it is a logarithm of the infinity
  };
  std::vector<std::uint32_t> lost_behind(std::uint32_t value);
  std::optional<Passing> passing(const Op& op, const Input& input, std::uint32_t output, bool is_zero, bool has_log);
  std::optional<std::uint64_t> zeros_in(const CatalogTensor* tensor);
  static bool ends_proportion(const Op& op, const std::string& type);
  std::set<std::uint32_t> powers_of(std::uint32_t value) const;
  bool is_related(std::uint32_t value, const std::set<std::uint32_t>& sources) const;
  bool zeroes(const Op& op, const Input& factor, std::uint32_t output, const std::set<std::uint32_t>& sources);
  std::optional<std::uint32_t> zeroed_by_number(std::uint32_t after, const std::set<std::uint32_t>& sources);

  HealthReader& health_;
  Options options_;
  DataFlow flow_;  // of both steps; operators are numbered as in ops_
  std::size_t run_ = 0;
  std::vector<Op> ops_;
  std::vector<Value> values_;
  std::unordered_map<std::string, std::uint32_t> outside_;
  bool inferred_ = false, has_edges_ = false, scaler_skipped_ = false;
  bool optimizer_reads_finite_ = false;  // an optimizer ran, and all gradients that it read are finite
  bool trains_ = false;                  // backward or an optimizer ran in this step
  bool has_modules_ = false;             // an op of this step ran inside a module
  bool is_evaluation_ = false;
  std::uint64_t tensors_ = 0;
  std::vector<Root> roots_, healthy_;
};

}  // namespace sonde
