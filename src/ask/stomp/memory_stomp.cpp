#include "ask/stomp/memory_stomp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <numeric>

#include "dump/formats/file_names.h"
#include "dump/formats/tensor_file.h"
#include "read/catalog/data_flow.h"
#include "read/catalog/same_values.h"
#include "read/catalog/slot_text.h"
#include "read/catalog/step_graph.h"
#include "read/catalog/unfinished_runs.h"
#include "read/measure/measure.h"
#include "read/measure/slot_values.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::uint64_t kMostBytes = 8ULL << 30;  // of files that are compared
constexpr std::size_t kMostStomps = 100;
constexpr std::size_t kSuspectsOfStomp = 5;
constexpr std::size_t kValuesShown = 3;
constexpr std::int64_t kMostSorted = 1 << 24;  // elements
constexpr int kLongestChain = 64;

bool same_form(const CatalogTensor& a, const CatalogTensor& b) {
  if (a.dtype != DType::undefined && b.dtype != DType::undefined && a.dtype != b.dtype) return false;
  return a.has_shape && b.has_shape && a.shape == b.shape;
}

bool close(double a, double b) { return a == b || std::fabs(a - b) <= 1e-9 * std::max(std::fabs(a), std::fabs(b)); }

// From statistics alone, which can prove a difference, but not equality.
bool differ(const CatalogTensor& a, const CatalogTensor& b) {
  if (!a.statistics || !b.statistics) return false;
  const KnownStatistics &s = *a.statistics, &t = *b.statistics;
  const auto other = [](const std::optional<double>& x, const std::optional<double>& y) {
    return x && y && *x != *y && !(std::isnan(*x) && std::isnan(*y));
  };
  return other(s.max, t.max) || other(s.min, t.min) || (s.zero_count && t.zero_count && s.zero_count != t.zero_count) ||
         (s.nan_count && t.nan_count && s.nan_count != t.nan_count);
}

bool same_value(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Whether `b` is `a` with its dimensions in this order.
bool is_permuted(const SlotValues& a, const SlotValues& b, const std::vector<std::size_t>& order) {
  const std::size_t rank = order.size();
  for (std::size_t i = 0; i < rank; ++i) {
    if (b.shape()[i] != a.shape()[order[i]]) return false;
  }
  Position at_a(rank, 0), at_b(rank, 0);
  for (;;) {
    for (std::size_t i = 0; i < rank; ++i) at_a[order[i]] = at_b[i];
    if (!same_value(a.at(at_a), b.at(at_b))) return false;
    std::size_t i = rank;
    while (i-- > 0 && ++at_b[i] >= b.shape()[i]) at_b[i] = 0;
    if (i == ~std::size_t{0}) return true;
  }
}

// Whether two tensors may be views of the same elements in another order: their dimensions exchanged. Empty: unknown.
std::optional<bool> same_in_another_order(const CatalogRank& rank, const CatalogTensor& a, const CatalogTensor& b) {
  if (a.shape.size() < 2) return false;
  const auto first = SlotValues::open(rank, a), second = SlotValues::open(rank, b);
  if (first && second && first->elements() <= kMostSorted && first->elements() > 0) {
    constexpr std::size_t kMostDimensions = 5;
    if (a.shape.size() > kMostDimensions) return std::nullopt;
    std::vector<std::size_t> order(a.shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    while (std::next_permutation(order.begin(), order.end())) {
      if (is_permuted(*first, *second, order)) return true;
    }
    return false;
  }
  if (!a.statistics || !b.statistics) return false;
  const KnownStatistics &s = *a.statistics, &t = *b.statistics;
  const bool same = s.max == t.max && s.min == t.min && s.zero_count == t.zero_count &&
                    close(s.avg.value_or(0), t.avg.value_or(0)) && close(s.l2norm.value_or(0), t.l2norm.value_or(0));
  return same ? std::nullopt : std::optional(false);
}

// The elements that differ, and the distance from the first to the last of them.
struct Range {
  std::uint64_t differ = 0, elements = 0;
  std::int64_t first = 0, last = 0;  // elements, in C order
  std::vector<std::string> values;
};

std::optional<Range> range_of(const CatalogRank& rank, const CatalogTensor& before, const CatalogTensor& after) {
  const auto first = SlotValues::open(rank, before), second = SlotValues::open(rank, after);
  if (!first || !second || first->shape() != second->shape()) return std::nullopt;
  const std::vector<double> x = first->values(), y = second->values();
  Range range;
  range.elements = x.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::memcmp(&x[i], &y[i], sizeof(double)) == 0) continue;
    if (range.differ++ == 0) range.first = static_cast<std::int64_t>(i);
    range.last = static_cast<std::int64_t>(i);
    if (range.values.size() < kValuesShown) {
      range.values.push_back(fmt::format("element {}: {} became {}", i, number_text(x[i]), number_text(y[i])));
    }
  }
  return range;
}

void add_statistics(const CatalogTensor& before, const CatalogTensor& after, Finding& finding) {
  if (!before.statistics || !after.statistics) return;
  const auto add = [&](const char* name, const auto& a, const auto& b) {
    if (a && b && *a != *b && !(std::isnan(static_cast<double>(*a)) && std::isnan(static_cast<double>(*b)))) {
      finding.evidence.push_back(fmt::format("{} was {} and became {}", name, number_text(static_cast<double>(*a)),
                                             number_text(static_cast<double>(*b))));
    }
  };
  const KnownStatistics &a = *before.statistics, &b = *after.statistics;
  add("max", a.max, b.max);
  add("min", a.min, b.min);
  add("avg", a.avg, b.avg);
  add("l2norm", a.l2norm, b.l2norm);
  add("NaN count", a.nan_count, b.nan_count);
}

void add_range(const CatalogRank& rank, const CatalogTensor& before, const CatalogTensor& after, Finding& finding) {
  const std::optional<Range> range = range_of(rank, before, after);
  if (!range || range->differ == 0) {
    finding.limits.push_back("the dump does not have the values of both sides: the changed elements cannot be known");
    add_statistics(before, after, finding);
    return;
  }
  const std::uint64_t item = std::max<std::uint64_t>(info(before.dtype).item_bytes, 1);
  const auto first = static_cast<std::uint64_t>(range->first), last = static_cast<std::uint64_t>(range->last);
  finding.numbers = {{"elements that differ", static_cast<double>(range->differ)},
                     {"first element", static_cast<double>(first)},
                     {"last element", static_cast<double>(last)},
                     {"first byte", static_cast<double>(first * item)},
                     {"last byte", static_cast<double>(last * item + item - 1)}};
  finding.evidence.push_back(fmt::format("{} of {} elements changed, {} to {}: bytes {} to {} of the tensor in C order",
                                         range->differ, range->elements, first, last, first * item,
                                         last * item + item - 1));
  finding.evidence.insert(finding.evidence.end(), range->values.begin(), range->values.end());
}

// One rank.
class StompSearch {
 public:
  StompSearch(const CatalogRank& rank, const DumpPart& part, StompReport& report)
      : rank_(rank), part_(part), report_(report), same_(rank, kMostBytes), sources_(sources_of(rank)), flow_(rank) {}

  void run() {
    for (std::size_t step = 0; step < rank_.steps.size(); ++step) {
      if (step == 0 || rank_.steps[step].run != rank_.steps[step - 1].run) flow_ = DataFlow(rank_), seen_.clear();
      look_at(rank_.steps[step]);
    }
  }

 private:
  // The last read of an output.
  struct Seen {
    const CatalogOp* by = nullptr;
    const CatalogTensor* tensor = nullptr;
  };

  void look_at(const CatalogStep& step);
  void look_at_reads(const CatalogStep& step, const CatalogOp& op, bool reports);
  void add_unreadable(std::initializer_list<const CatalogTensor*> tensors);
  void look_at_pair(const CatalogStep& step, const CatalogOp& pair, bool reports);
  const CatalogTensor* written(const DataFlow::Maker& maker, const CatalogTensor& input) const;
  bool is_whole(const CatalogOp& op, std::uint32_t slot, const CatalogTensor& like, int depth) const;
  void report(const CatalogStep& step, const CatalogOp& writer, const CatalogTensor& written, const Seen& before,
              const CatalogOp& reader, const CatalogTensor& after, bool watched);
  void note_unreadable(const CatalogTensor& tensor);
  std::optional<bool> same(const CatalogTensor& before, const CatalogTensor& after, bool watched);
  void add_suspects(const CatalogStep& step, const CatalogOp& from, const CatalogOp& to, bool watched,
                    Finding& finding);

  const CatalogRank& rank_;
  const DumpPart& part_;
  StompReport& report_;
  SameValues same_;
  SourceTexts sources_;
  DataFlow flow_;  // of the run, up to this step
  std::map<std::pair<std::uint64_t, std::uint32_t>, Seen> seen_;
  std::map<std::string, const CatalogOp*> by_file_name_;  // of this step; pair names contain file names
  std::map<std::pair<std::string, std::uint32_t>, Seen> watched_;
};

void StompSearch::look_at(const CatalogStep& step) {
  const bool reports = part_.takes(step);
  by_file_name_.clear();
  watched_.clear();
  for (const CatalogOp& op : step.ops) {
    if (!op.is_parameter) by_file_name_.emplace(sanitised(op.op_name), &op);
  }
  for (const CatalogOp& op : step.ops) {
    if (op.op_name.find("_To_") != std::string_view::npos) {
      look_at_pair(step, op, reports);
      continue;
    }
    if (op.is_parameter) continue;
    look_at_reads(step, op, reports);
    flow_.add(op);
  }
}

// Whether output `slot` is all of the memory that its op wrote, so that a reader with the same shape reads the same
// elements. An op that writes in place may have written only a part of the memory: then all of it, with this shape,
// must be made by an op that neither writes in place nor returns a view.
bool StompSearch::is_whole(const CatalogOp& op, std::uint32_t slot, const CatalogTensor& like, int depth) const {
  const OpNature nature = nature_of(op.op_type);
  if (!nature.in_place) {
    const auto inputs = std::ranges::count(op.tensors, true, &CatalogTensor::is_input);
    return depth == 0 ? inputs <= std::int64_t{nature.most_inputs} : !nature.only_moves;
  }
  if (depth >= kLongestChain) return false;
  for (const CatalogTensor& tensor : op.tensors) {
    if (!tensor.is_input || tensor.slot != slot || !same_form(tensor, like)) continue;
    if (tensor.parameter.is_parameter() || tensor.parameter.kind == NameKind::carried) return true;
    const std::optional<DataFlow::Maker> maker = flow_.maker(tensor);
    return maker && is_whole(*maker->op, maker->slot, like, depth + 1);
  }
  return false;
}

// The writer's record of the value that this input reads; null if there is none, or if the two may be different views.
const CatalogTensor* StompSearch::written(const DataFlow::Maker& maker, const CatalogTensor& input) const {
  const CatalogTensor* output = DataFlow::output(maker);
  if (output == nullptr || !same_form(*output, input) || !is_whole(*maker.op, maker.slot, *output, 0)) return nullptr;
  return output;
}

void StompSearch::note_unreadable(const CatalogTensor& tensor) {
  if (tensor.file.empty()) return;
  const std::filesystem::path path = rank_.directory / tensor.file;
  const Result<TensorFile> file = TensorFile::open(path, spec_of(tensor));
  if (file || std::ranges::find(report_.problems, path, &DumpProblem::path) != report_.problems.end()) return;
  report_.problems.push_back({path, file.error().message});
}

// The watcher keeps the number of a tensor whose bytes have not changed.
std::optional<bool> StompSearch::same(const CatalogTensor& before, const CatalogTensor& after, bool watched) {
  if (watched && before.content != 0 && after.content != 0) return before.content == after.content;
  if (const std::optional<bool> known = same_(before, after)) return known;
  const auto first = SlotValues::open(rank_, before), second = SlotValues::open(rank_, after);
  if (!first) note_unreadable(before);
  if (!second) note_unreadable(after);
  if (!first || !second || first->shape() != second->shape() || first->elements() > kMostSorted) {
    return differ(before, after) ? std::optional(false) : std::nullopt;
  }
  const std::vector<double> x = first->values(), y = second->values();
  return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

// Tensors whose values are in the dump but cannot be read.
void StompSearch::add_unreadable(std::initializer_list<const CatalogTensor*> tensors) {
  for (const CatalogTensor* tensor : tensors) {
    if (tensor->file.empty()) continue;
    const std::filesystem::path path = rank_.directory / tensor->file;
    const Result<TensorFile> file = TensorFile::open(path, spec_of(*tensor));
    if (file || std::ranges::find(report_.problems, path, &DumpProblem::path) != report_.problems.end()) continue;
    report_.problems.push_back({path, file.error().message});
  }
}

void StompSearch::look_at_reads(const CatalogStep& step, const CatalogOp& op, bool reports) {
  for (const CatalogTensor& input : op.tensors) {
    const std::optional<DataFlow::Maker> maker = flow_.maker(input);
    if (!maker || !input.recorded()) continue;
    const CatalogTensor* output = written(*maker, input);
    if (output == nullptr || !output->recorded()) continue;
    Seen& seen = seen_[{input.source, input.source_slot}];
    if (seen.tensor == nullptr) seen = {maker->op, output};
    if (input.content != 0 && input.content == seen.tensor->content) {
      report_.not_observable += reports ? 1 : 0;
      continue;
    }
    const std::optional<bool> same = this->same(*seen.tensor, input, false);
    if (!same) {
      report_.not_known += reports ? 1 : 0;
      if (reports) add_unreadable({seen.tensor, &input});
      continue;
    }
    const Seen before = seen;
    seen = {&op, &input};
    const std::optional<bool> other_order = *same ? true : same_in_another_order(rank_, *before.tensor, input);
    (other_order ? report_.compared : report_.not_known) += reports ? 1 : 0;
    if (other_order.value_or(true) || !reports) continue;
    report(step, *maker->op, *output, before, op, input, false);
  }
}

// `X_To_C`: the output of C, as read after X.
void StompSearch::look_at_pair(const CatalogStep& step, const CatalogOp& pair, bool reports) {
  const std::string_view name = pair.op_name;
  // Either name may contain the word `To`: both parts must be names of ops in the step.
  for (std::size_t at = name.find("_To_"); at != std::string_view::npos; at = name.find("_To_", at + 1)) {
    const auto reader = by_file_name_.find(std::string(name.substr(0, at)));
    const auto watched = by_file_name_.find(std::string(name.substr(at + 4)));
    if (watched == by_file_name_.end()) continue;
    const CatalogOp& by = reader != by_file_name_.end() ? *reader->second : pair;
    for (const CatalogTensor& tensor : pair.tensors) {
      if (tensor.is_input || !tensor.recorded()) continue;
      const CatalogTensor* output = nullptr;
      for (const CatalogTensor& own : watched->second->tensors) {
        if (!own.is_input && own.slot == tensor.slot && own.recorded()) output = &own;
      }
      if (output == nullptr) continue;
      Seen& seen = watched_[{watched->first, tensor.slot}];
      if (seen.tensor == nullptr) seen = {watched->second, output};
      const std::optional<bool> same = this->same(*seen.tensor, tensor, true);
      if (!same) {
        report_.not_known += reports ? 1 : 0;
        if (reports) add_unreadable({seen.tensor, &tensor});
        continue;
      }
      report_.compared += reports ? 1 : 0;
      report_.watched += reports ? 1 : 0;
      const Seen before = seen;
      seen = {&by, &tensor};
      if (!*same && reports) report(step, *watched->second, *output, before, by, tensor, true);
    }
    return;
  }
}

void StompSearch::report(const CatalogStep& step, const CatalogOp& writer, const CatalogTensor& written,
                         const Seen& before, const CatalogOp& reader, const CatalogTensor& after, bool watched) {
  if (report_.findings.size() >= kMostStomps) {
    ++report_.findings_left_out;
    return;
  }
  Finding finding = finding_at(rank_, step, writer, &written);
  finding.kind = WrongKind::memory_overwritten;
  finding.code = code_of(rank_, reader, sources_);
  const bool by_reader = watched && nature_of(reader.op_type).in_place;
  finding.why =
      by_reader
          ? fmt::format("{} changed in memory that {} writes in place", slot_name(false, written.slot), reader.op_name)
          : fmt::format("the output of {} changed between {} and {}, and no operator wrote it", writer.op_name,
                        before.by == &writer ? "that" : before.by->op_name, reader.op_name);
  if (by_reader) finding.tags.emplace_back("written_by_operator");
  finding.evidence.push_back(
      fmt::format("written by {}:{}{}", writer.op_name, slot_name(false, written.slot), line_text(writer)));
  if (before.by != &writer) {
    finding.evidence.push_back(fmt::format("still the same for {}{}", before.by->op_name, line_text(*before.by)));
  }
  finding.evidence.push_back(
      fmt::format("found changed {} {}{}", watched ? "after" : "by", reader.op_name, line_text(reader)));
  add_range(rank_, *before.tensor, after, finding);
  add_suspects(step, *before.by, reader, watched, finding);
  report_.findings.push_back(std::move(finding));
}

void StompSearch::add_suspects(const CatalogStep& step, const CatalogOp& from, const CatalogOp& to, bool watched,
                               Finding& finding) {
  std::size_t count = 0;
  for (auto op = step.ops.rbegin(); op != step.ops.rend(); ++op) {
    if (op->is_parameter || op->sequence <= from.sequence || op->sequence > to.sequence) continue;
    if (&*op == &to && !watched) continue;
    if (++count > kSuspectsOfStomp) continue;
    finding.evidence.push_back(fmt::format("suspect: {}{}{}", op->op_name, line_text(*op),
                                           nature_of(op->op_type).in_place ? ", which writes in place" : ""));
  }
  if (count > kSuspectsOfStomp)
    finding.evidence.push_back(fmt::format("and {} operators more", count - kSuspectsOfStomp));
  finding.evidence.emplace_back(
      "or the program's own lines between them: NumPy on the same memory, data_ptr, another library or thread");
}

}  // namespace

StompReport memory_stomp(const Catalog& catalog, const DumpPart& part) {
  StompReport report;
  for (const CatalogRank& rank : catalog.ranks) {
    if (part.takes(rank)) StompSearch(rank, part, report).run();
  }
  report.complete = !catalog.has_lost() && !any_ended_early(unfinished_runs(catalog, part)) &&
                    report.problems.empty() && report.compared > 0 && report.not_known == 0 &&
                    report.not_observable == 0;
  return report;
}

}  // namespace sonde
