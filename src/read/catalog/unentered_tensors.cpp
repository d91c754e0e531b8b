#include "read/catalog/unentered_tensors.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "read/catalog/likely_sources.h"
#include "read/catalog/steps_by_time.h"

namespace sonde {
namespace {

constexpr std::string_view kLostName = "?op-";  // as journal_catalog.cpp calls an op whose definition is lost

// Full names by their form in files and rows.
class Names {
 public:
  explicit Names(const std::vector<std::pair<std::string, std::string>>& names) {
    for (const auto& [type, name] : names) {
      add(whole_, key(type, name), name);
      // 2.0 leaves the scope out.
      if (type != "Parameter") add(ends_, key(type, name.substr(name.rfind('/') + 1)), name);
    }
  }

  std::string_view op_name(const CatalogOp& op) const {
    const std::string wanted = key(op.op_type, op.op_name);
    for (const auto* names : {&whole_, &ends_}) {
      const auto found = names->find(wanted);
      if (found != names->end() && !found->second.empty()) return found->second;
    }
    return op.op_name;
  }

 private:
  using ByKey = std::unordered_map<std::string, std::string>;

  static std::string key(std::string_view type, std::string_view name) {
    return (type == "Parameter" ? "Parameter." : "") + comparable_name(name);
  }
  // Ambiguous names are not used.
  static void add(ByKey& names, const std::string& key, const std::string& name) {
    const auto [at, is_new] = names.try_emplace(key, name);
    if (!is_new && at->second != name) at->second.clear();
  }

  ByKey whole_, ends_;
};

using Place = std::pair<std::size_t, std::size_t>;  // op, tensor
using Places = std::vector<Place>;

// The catalog's data of one step: slots by the name of their op, and by the time they were read.
struct StepSlots {
  std::map<std::tuple<std::string_view, bool, std::uint32_t>, Places> by_name;
  std::map<std::tuple<std::uint64_t, bool, std::uint32_t>, Places> by_time;
};

StepSlots slots_of(const CatalogStep& step) {
  StepSlots slots;
  for (std::size_t i = 0; i < step.ops.size(); ++i) {
    for (std::size_t j = 0; j < step.ops[i].tensors.size(); ++j) {
      const CatalogTensor& tensor = step.ops[i].tensors[j];
      slots.by_name[{step.ops[i].op_name, tensor.is_input, tensor.slot}].emplace_back(i, j);
      if (tensor.timestamp_us != 0) {
        slots.by_time[{tensor.timestamp_us, tensor.is_input, tensor.slot}].emplace_back(i, j);
      }
    }
  }
  return slots;
}

bool has_slot(const CatalogOp& op, const CatalogTensor& like) {
  return std::ranges::any_of(op.tensors, [&](const CatalogTensor& tensor) {
    return tensor.is_input == like.is_input && tensor.slot == like.slot;
  });
}

// Read in the same microsecond, at the same place.
bool has_same_time(const CatalogOp& a, const CatalogOp& b) {
  return std::ranges::any_of(a.tensors, [&](const CatalogTensor& one) {
    return one.timestamp_us != 0 && std::ranges::any_of(b.tensors, [&](const CatalogTensor& other) {
             return one.timestamp_us == other.timestamp_us && one.is_input == other.is_input && one.slot == other.slot;
           });
  });
}

// From the first time that an op was looked at to the last; 0, 0: unknown.
std::pair<std::uint64_t, std::uint64_t> times_of(const CatalogOp& op) {
  std::uint64_t first = op.timestamp_us, last = op.timestamp_us;
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.timestamp_us == 0) continue;
    first = first == 0 ? tensor.timestamp_us : std::min(first, tensor.timestamp_us);
    last = std::max(last, tensor.timestamp_us);
  }
  return {first, last};
}

// A taken name advances the time of a file by a few microseconds; a later run of the op is further away.
bool may_be_of(const CatalogOp& op, std::uint64_t timestamp_us) {
  constexpr std::uint64_t kNear = 1000;
  const auto [first, last] = times_of(op);
  return timestamp_us == 0 || first == 0 || (timestamp_us + kNear >= first && timestamp_us <= last + kNear);
}

void sort_slots(CatalogOp& op) {
  std::ranges::stable_sort(op.tensors, [](const CatalogTensor& a, const CatalogTensor& b) {
    return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
  });
}

// Additions to a step: ops that it lacks, and tensors that its ops lack.
struct Additions {
  std::vector<CatalogOp> ops;
  std::vector<std::pair<std::size_t, CatalogTensor>> tensors;  // of the op with this index
};

class TensorAdder {
 public:
  TensorAdder(const StepFilter& filter, const JournalRemains& remains, CatalogRank& rank, TextPool& texts)
      : filter_(filter), remains_(remains), names_(remains.names), rank_(rank), texts_(texts) {}

  Unentered add(const CatalogRank& tree) {
    for (const CatalogStep& step : tree.steps) {
      if (filter_.takes(step.id)) make_steps(step);
    }
    for (const CatalogStep& step : tree.steps) {
      if (filter_.takes(step.id)) name_lost_ops(step);
    }
    remember_lines();
    for (const CatalogStep& step : tree.steps) {
      if (filter_.takes(step.id)) add_step(step);
    }
    for (auto& [step, additions] : additions_) put_in_place(rank_.steps[step], std::move(additions));
    return added_;
  }

 private:
  bool is_entered(const CatalogTensor& tensor) const {
    return !tensor.file.empty() && remains_.files.contains(std::string(tensor.file));
  }
  bool is_new(const CatalogTensor& tensor) const { return tensor.recorded() && !is_entered(tensor); }
  bool has_new(const CatalogOp& op) const {
    return std::ranges::any_of(op.tensors, [&](const CatalogTensor& tensor) { return is_new(tensor); });
  }

  // The run that was active at that time.
  std::size_t run_at(std::uint64_t timestamp_us) const {
    std::size_t run = remains_.runs.empty() ? 0 : remains_.runs.size() - 1;
    while (timestamp_us != 0 && run > 0 && remains_.runs[run].started_us > timestamp_us) --run;
    return run;
  }

  CatalogStep* find_step(StepId id, std::size_t run) {
    const auto found =
        std::ranges::find_if(rank_.steps, [&](const CatalogStep& step) { return step.id == id && step.run == run; });
    return found != rank_.steps.end() ? &*found : nullptr;
  }

  // Adds steps that are missing in the journal, before any pointer to a step is taken.
  void make_steps(const CatalogStep& like) {
    for (const CatalogOp& op : like.ops) {
      if (!has_new(op)) continue;
      const std::size_t run = run_at(op.timestamp_us);
      if (find_step(like.id, run) != nullptr) continue;
      CatalogStep step;
      step.id = like.id;
      step.run = run;
      step.started_us = like.started_us;
      const auto is_later = [&](const CatalogStep& other) {
        return other.run > run ||
               (other.run == run && other.id.graph == like.id.graph && other.id.number > like.id.number);
      };
      rank_.steps.insert(std::ranges::find_if(rank_.steps, is_later), std::move(step));
    }
  }

  // An op whose definition is lost gets the name of a tensor that was read in the same microsecond; so do all others
  // with its number.
  void name_lost_ops(const CatalogStep& from) {
    for (const CatalogOp& op : from.ops) {
      const std::size_t run = run_at(op.timestamp_us);
      CatalogStep* step = find_step(from.id, run);
      if (step == nullptr) continue;
      const auto lost = std::ranges::find_if(step->ops, [&](const CatalogOp& one) {
        return one.op_name.starts_with(kLostName) && has_same_time(one, op);
      });
      if (lost != step->ops.end()) rename(lost->op_name, run, op);
    }
  }

  void rename(std::string_view old, std::size_t run, const CatalogOp& like) {
    const std::string_view name = texts_.keep(names_.op_name(like)), type = texts_.keep(like.op_type);
    for (CatalogStep& step : rank_.steps) {
      for (CatalogOp& op : step.ops) {
        if (step.run != run || op.op_name != old) continue;
        op.op_name = name;
        op.op_type = type;
        if (op.trace == nullptr) op.phase = like.phase;
      }
    }
  }

  // The call site of an op in one step is the same in others.
  void remember_lines() {
    for (const CatalogStep& step : rank_.steps) {
      for (const CatalogOp& op : step.ops) {
        if (op.trace != nullptr) lines_.try_emplace(op.op_name, op);
      }
    }
  }

  void add_step(const CatalogStep& from) {
    std::map<std::size_t, StepSlots> known;  // by run
    for (const CatalogOp& op : from.ops) {
      if (!has_new(op)) continue;
      const std::size_t run = run_at(op.timestamp_us);
      CatalogStep& step = *find_step(from.id, run);
      const StepSlots& slots = known.try_emplace(run, slots_of(step)).first->second;
      add_op(op, step, slots);
    }
  }

  void add_op(const CatalogOp& from, CatalogStep& step, const StepSlots& slots) {
    const std::string_view name = texts_.keep(names_.op_name(from));
    std::vector<CatalogTensor> fresh;
    for (const CatalogTensor& tensor : from.tensors) {
      if (!is_new(tensor)) continue;
      if (CatalogTensor* known = find(step, slots, name, from, tensor)) {
        join(tensor, *known);
      } else {
        ++(tensor.file.empty() ? added_.rows : added_.files);
        fresh.push_back(tensor);
      }
    }
    if (fresh.empty()) return;
    step.is_mended = true;
    Additions& additions = additions_[static_cast<std::size_t>(&step - rank_.steps.data())];
    // The journal may have the op and lack only some of its tensors.
    const auto own = std::ranges::find_if(step.ops, [&](const CatalogOp& op) {
      return op.op_name == name && may_be_of(op, from.timestamp_us) &&
             std::ranges::none_of(fresh, [&](const auto& tensor) { return has_slot(op, tensor); });
    });
    if (own != step.ops.end()) {
      const auto index = static_cast<std::size_t>(own - step.ops.begin());
      for (CatalogTensor& tensor : fresh) additions.tensors.emplace_back(index, std::move(tensor));
      return;
    }
    CatalogOp op = from;
    op.op_name = name;
    op.sequence = kNoSequence;
    if (const auto lines = lines_.find(name); lines != lines_.end()) take_lines(lines->second, op);
    for (const CatalogTensor& tensor : fresh) {
      if (tensor.file.empty()) continue;
      const auto lone = remains_.runs[step.run].lone_files.find(std::string(tensor.file));
      if (lone != remains_.runs[step.run].lone_files.end()) op.sequence = lone->second;
    }
    op.tensors = std::move(fresh);
    additions.ops.push_back(std::move(op));
    ++added_.ops;
  }

  static void take_lines(const CatalogOp& from, CatalogOp& op) {
    op.phase = from.phase;
    op.source_file = from.source_file;
    op.line = from.line;
    op.function = from.function;
    op.trace = from.trace;
  }

  // The matching slot of the journal.
  static CatalogTensor* find(CatalogStep& step, const StepSlots& slots, std::string_view name, const CatalogOp& from,
                             const CatalogTensor& tensor) {
    const auto at = [&](const Place& place) { return &step.ops[place.first].tensors[place.second]; };
    const auto same_time = slots.by_time.find({tensor.timestamp_us, tensor.is_input, tensor.slot});
    if (tensor.timestamp_us != 0 && same_time != slots.by_time.end()) {
      for (const Place& place : same_time->second) {
        const bool is_same_row = tensor.file.empty() && at(place)->statistics.has_value();
        if (step.ops[place.first].op_name == name || is_same_row) return at(place);
      }
    }
    // If a name was taken, the time was advanced; tables of single ops have the time of the op; 1.2 has none.
    const auto same_name = slots.by_name.find({name, tensor.is_input, tensor.slot});
    if (same_name == slots.by_name.end() || same_name->second.size() != 1) return nullptr;
    const Place& only = same_name->second.front();
    return may_be_of(step.ops[only.first], from.timestamp_us) ? at(only) : nullptr;
  }

  void join(const CatalogTensor& from, CatalogTensor& known) {
    // An existing one belongs to an equal tensor.
    if (!from.file.empty() && (known.file.empty() || from.timestamp_us == known.timestamp_us)) {
      known.file = from.file;
      known.wanted = true;
      ++added_.files;
    }
    if (from.statistics && !known.statistics) {
      known.statistics = from.statistics;
      known.md5 = from.md5;
      known.sha1 = from.sha1;
      if (from.file.empty()) ++added_.rows;
    }
  }

  void put_in_place(CatalogStep& step, Additions additions) {
    for (auto& [op, tensor] : additions.tensors) {
      step.ops[op].tensors.push_back(std::move(tensor));
      sort_slots(step.ops[op]);
    }
    const bool was_empty = step.ops.empty();
    std::vector<CatalogOp> known = std::move(step.ops);
    step.ops.clear();
    auto next = additions.ops.begin();
    std::size_t first = 0;  // of the additions in a row at the end of step.ops
    const auto comes_before = [](const CatalogOp& fresh, const CatalogOp& op) {
      return fresh.sequence != kNoSequence ? fresh.sequence < op.sequence : fresh.timestamp_us < op.timestamp_us;
    };
    for (CatalogOp& op : known) {
      first = step.ops.size();
      while (next != additions.ops.end() && comes_before(*next, op)) step.ops.push_back(std::move(*next++));
      number(step, first, op.sequence);
      step.ops.push_back(std::move(op));
    }
    first = step.ops.size();
    std::move(next, additions.ops.end(), std::back_inserter(step.ops));
    number(step, first, kNoSequence);
    if (was_empty) add_likely_sources(step);
  }

  // Numbers the ops from `first` on. If the journal lacks exactly as many numbers there, the ops get these; otherwise
  // they get numbers that no input refers to, because no source is better than a wrong one. `end`: the number of the op
  // behind them; kNoSequence: there is none.
  void number(CatalogStep& step, std::size_t first, std::uint64_t end) {
    const std::size_t count = step.ops.size() - first;
    if (count == 0) return;
    const std::vector<std::uint64_t>& used = remains_.runs[step.run].sequences;
    const auto last_used = [&](std::uint64_t before) {
      const auto at = std::ranges::lower_bound(used, before);
      return at != used.begin() ? *(at - 1) + 1 : 0;
    };
    const std::uint64_t from = first > 0 ? step.ops[first - 1].sequence + 1 : end != kNoSequence ? last_used(end) : 0;
    const auto next_used = std::ranges::lower_bound(used, from);
    if (end == kNoSequence && next_used != used.end() && first > 0) end = *next_used;
    const auto taken = static_cast<std::uint64_t>(std::ranges::lower_bound(used, end) - next_used);
    const bool fits = end != kNoSequence && end > from && end - from - taken == count;
    std::uint64_t free = from;
    for (std::size_t i = first; i < step.ops.size(); ++i) {
      if (step.ops[i].sequence != kNoSequence) continue;
      while (fits && std::ranges::binary_search(used, free)) ++free;
      step.ops[i].sequence = fits ? free++ : next_number(step.run);
    }
  }

  std::uint64_t next_number(std::size_t run) {
    const std::vector<std::uint64_t>& used = remains_.runs[run].sequences;
    const auto [at, is_first] = beyond_.try_emplace(run, used.empty() ? 0 : used.back() + 1);
    return at->second++;
  }

  const StepFilter& filter_;
  const JournalRemains& remains_;
  Names names_;
  CatalogRank& rank_;
  TextPool& texts_;
  std::unordered_map<std::string_view, CatalogOp> lines_;  // by full name
  std::map<std::size_t, Additions> additions_;             // by index of the step
  std::map<std::size_t, std::uint64_t> beyond_;            // by run
  Unentered added_;
};

}  // namespace

Unentered add_unentered_tensors(CatalogRank tree, const StepFilter& filter, const JournalRemains& remains,
                                CatalogRank& rank, TextPool& texts) {
  if (remains.runs.empty()) return {};
  return TensorAdder(filter, remains, rank, texts).add(in_their_steps(std::move(tree), remains));
}

}  // namespace sonde
