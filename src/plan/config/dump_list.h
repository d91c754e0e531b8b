// DumpList: the selection by the `dump_list` of an acl.json. The rules: docs/compatibility.md, "acl.json: selection".
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/config/plan.h"
#include "plan/config/seen_names.h"
#include "plan/config/selector.h"

namespace sonde {

class DumpList {
 public:
  explicit DumpList(const Plan& plan);

  Selector::Wanted decide(const Selector::AskedOp& op);
  bool in_order() const { return in_order_; }
  // Parameters that a selected op reads. A watcher records only outputs of ops.
  bool takes_parameters() const { return !watcher_ && sides_ != Sides::inputs; }
  // An entry of the list names this parameter; the second function: of one that applies to the reader's model.
  bool names_parameter(std::string_view name) const;
  bool takes_parameter_by_name(std::string_view name, std::string_view scope);
  bool names(const Selector::AskedOp& op, std::string_view replaced_by);
  void begin_step(std::uint32_t graph);
  std::vector<Selector::UnusedEntry> unused() const;
  std::vector<std::uint32_t> numbers_named() const;

 private:
  // A name of the file and the number of its matches.
  struct Name {
    std::string key, text;
    std::uint64_t hits = 0;
    ReplacedOps replaced = {};
  };
  // The state of a range in the current step.
  enum class Place : std::uint8_t { before, inside, after, broken };
  struct Range {
    Name begin, end;
    std::map<std::uint32_t, Place> places;  // by graph; none: before
  };
  struct Blacklist {
    Name name;
    std::vector<SlotName> slots;
  };
  struct Entry {
    Name model;  // empty text: every model
    bool everything = false;
    std::vector<Name> layers, watched;
    std::vector<Range> ranges;
    std::vector<Blacklist> by_name, by_type;
  };

  bool applies(Entry& entry, const Selector::AskedOp& op) const;
  static bool takes(Entry& entry, const Selector::AskedOp& op);
  static bool advance(Range& range, const Selector::AskedOp& op);
  Selector::Wanted watch(const Selector::AskedOp& op);
  const std::vector<SlotName>* exceptions(const Selector::AskedOp& op);

  bool all_ = false;         // single operators, and no list: everything
  bool single_ops_ = false;  // ops outside every module are selected
  bool anywhere_ = false;    // … or are matched with the list like all others
  bool quantised_ = false;   // the inputs of quantising ops are selected, too
  bool watcher_ = false;
  bool in_order_ = false;
  Sides sides_ = Sides::outputs;
  std::vector<Entry> entries_;
  std::set<std::string, std::less<>> seen_names_, seen_types_, seen_models_;
};

// How an entry names an op: by its full name; an entry without `-` also by that name with each of `/ - . \` and space
// as `_`; or by its type, PyTorch's or, through the alias table, MindSpore's or GE's, in any case.
bool names_op(std::string_view entry, std::string_view op_name, std::string_view op_type);
// The names of a model in `model_name`: `AlexNet`, `network-AlexNet`, or `graph_1`, the first model that ran.
bool names_model(std::string_view name, std::string_view scope);

}  // namespace sonde
