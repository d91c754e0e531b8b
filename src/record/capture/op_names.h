// OpNames: the names of operators and tensors in a dump, and the plan's selection among these operators.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dump/journal/record.h"
#include "ground/base/text.h"
#include "plan/config/selector.h"
#include "record/capture/sites.h"
#include "record/capture/step_clock.h"
#include "record/writer/recorder.h"

namespace sonde {

// For one beginning of a session. Not synchronised: its owner calls it under the session's lock. References to names
// are valid as long as it lives.
class OpNames {
 public:
  OpNames(const Plan& plan, Selector& selector, const SiteTable& sites);

  // True if set_dump() has an effect: only then the flags are checked.
  bool flags_matter() const { return flags_matter_; }

  // Must precede the first name; `recorder` is informed of each name and of the named sites.
  void open(Recorder& recorder) { recorder_ = &recorder; }

  struct Selected {
    const OpName* name = nullptr;
    Selector::Wanted wanted;
    std::uint32_t series = 0, number = 0;
  };
  // The next op with this site's type and scope in the step of `stamp`, and the selection for it.
  Selected next(const Site& site, std::uint32_t graph, std::uint64_t stamp, bool flagged);
  // The record of this op has this sequence.
  void ran(const Selected& op, std::uint64_t sequence);
  // The producer of the inputs of op `sequence` is wanted too, from the next step on. In this step it already ran, and
  // its
  //  outputs are recorded as the reader's inputs.
  void add_producer(std::uint64_t sequence);
  void begin_step() { ops_of_step_.clear(); }

  // A parameter, input data, a constant: equal texts give equal names.
  const OpName& parameter(std::string_view text);
  // How a tensor is part of a distributed one: equal texts give equal numbers.
  std::uint32_t placement(std::string_view text);
  // `watched` after `reader`, in the dump of a watcher.
  const OpName& pair(const OpName& reader, const OpName& watched);
  // An op under the host's own name, renumbered if the layout numbers all ops consecutively.
  const OpName& of_host(std::string_view op_name, std::string_view op_type);
  void define_site(std::uint32_t id);

 private:
  // The ops of one (type, scope), which are numbered.
  struct Series {
    std::string op_type;
    std::array<std::uint64_t, StepClock::kGraphs> stamp{};  // the step that `next` counts in
    std::array<std::uint32_t, StepClock::kGraphs> next{};
    struct Entry {
      const OpName* name = nullptr;
      Selector::Wanted wanted, wanted_if_flagged;
    };
    std::vector<Entry> entries;  // by number, grown as ops appear
  };
  Series& series_of(const Site& site);
  Series::Entry& entry_of(Series& series, const Site& site, std::uint32_t number);
  OpName& add(std::string op_type, std::string op_name);

  const bool flags_matter_;
  Selector& selector_;
  const SiteTable& sites_;
  Recorder* recorder_ = nullptr;
  std::deque<OpName> names_;     // stable addresses; index = id - 1
  bool reported_limit_ = false;  // on the number of names
  std::uint32_t nodes_ = 0;      // named so far, if the layout numbers ops consecutively
  std::deque<Series> series_;
  std::unordered_map<std::string, std::uint32_t> series_ids_;
  std::vector<std::uint32_t> series_of_site_;  // site id - 1 -> index into series_
  std::vector<bool> site_defined_;             // already reported to the recorder
  // If the plan follows producers: the ops of the current steps, by sequence, as (series, number).
  std::unordered_map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> ops_of_step_;
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> named_once_;  // parameters and pairs
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> placements_;
};

}  // namespace sonde
