#include "record/writer/failure_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dump/run_files/grown.h"
#include "ground/base/shape.h"
#include "ground/model/data_name.h"
#include "ground/model/gradient_name.h"

namespace sonde {
namespace {

constexpr std::size_t kMostLosses = 256;  // a program that makes new places for its loss must not fill the memory

bool has_nan(const TensorRecord& tensor) { return tensor.has_statistics && tensor.statistics.nan_count > 0; }

bool is_bad(const TensorRecord& tensor) { return tensor.has_statistics && !tensor.statistics.all_finite(); }

}  // namespace

void FailureWatch::define(const Site& site) {
  Place& place = grown(places_, site.id);
  place.phase = site.phase;
  place.forward_site = site.forward_site;
  if (site.trace.empty()) return;
  const SourceLine& line = site.trace.front();
  place.line = fmt::format("{}:{}", line.file.substr(line.file.rfind('/') + 1), line.line);
}

void FailureWatch::define(const OpName& name) {
  if (name.op_type != "Parameter") return;
  Name& facts = grown(names_, name.id);
  facts.text = name.op_name;
  facts.is_data = kind_of_name(name.op_name) == NameKind::data;
  facts.is_gradient = is_gradient_name(name.op_name);
  if (!facts.is_gradient) {
    named_[name.op_name] = name.id;
    return;
  }
  const auto of = named_.find(std::string(without_gradient(name.op_name)));
  if (of != named_.end()) names_[of->second].has_gradient = true;
}

const FailureWatch::Place& FailureWatch::place_of(std::uint32_t site) const {
  static const Place none;
  return site < places_.size() ? places_[site] : none;
}

std::string FailureWatch::text(const Record& record, const TensorRecord& tensor, const std::string& what) const {
  const OpName* op = record.kind == RecordKind::parameter ? record.reader : record.op;
  const std::string& line = place_of(record.site).line;
  return fmt::format("{} in {}{}{}", has_nan(tensor) ? "NaN" : "infinity", what,
                     op != nullptr ? ", at " + op->op_name : "", line.empty() ? "" : " (" + line + ")");
}

std::string FailureWatch::look_at_named(const Record& record, std::uint32_t name, const TensorRecord& tensor) const {
  if (name >= names_.size() || !is_bad(tensor)) return "";
  const Name& facts = names_[name];
  if (facts.is_data || facts.text.empty()) return "";
  if (facts.is_gradient) return text(record, tensor, "the gradient " + facts.text);
  if (!has_nan(tensor) && !facts.has_gradient) return "";  // a buffer with a mask
  return text(record, tensor, "the parameter " + facts.text);
}

// The optimizer has written it: a later step would read it.
std::string FailureWatch::look_at_updated(const Record& record, const TensorRecord& output) const {
  const auto is_it = [&](const TensorRecord& input) {
    return input.is_input && input.parameter < names_.size() && names_[input.parameter].has_gradient &&
           std::ranges::equal(input.shape.values(), output.shape.values());
  };
  const auto found = std::ranges::find_if(record.tensors, is_it);
  if (found == record.tensors.end()) return "";
  return text(record, output, "the parameter " + names_[found->parameter].text);
}

std::string FailureWatch::look_at_op(const Record& record, const Place& place) {
  const bool trains = record.step.graph == 0;
  const bool may_make_loss = trains && (place.phase == Phase::forward || place.phase == Phase::outside);
  const auto is_result = [](const TensorRecord& tensor) {
    return !tensor.is_input && element_count(tensor.shape.values()) == 1;
  };
  if (may_make_loss && std::ranges::any_of(record.tensors, is_result)) backward_runs_ = false;
  if (trains && place.phase == Phase::backward && place.forward_site != 0 && !std::exchange(backward_runs_, true)) {
    if (loss_sites_.size() < kMostLosses) loss_sites_.insert(place.forward_site);
    const auto bad = bad_scalars_.find(place.forward_site);
    if (bad != bad_scalars_.end()) return bad->second;
  }
  for (const TensorRecord& tensor : record.tensors) {
    if (!is_bad(tensor)) continue;
    std::string found;
    if (tensor.is_input) {
      if (tensor.parameter != 0) found = look_at_named(record, tensor.parameter, tensor);
    } else if (place.phase == Phase::optimizer) {
      found = look_at_updated(record, tensor);
    } else if (may_make_loss && is_result(tensor)) {
      found = text(record, tensor, "the loss");
      if (!loss_sites_.contains(record.site)) {
        if (bad_scalars_.size() < kMostLosses) bad_scalars_[record.site] = std::move(found);
        found.clear();
      }
    }
    if (!found.empty()) return found;
  }
  return "";
}

std::string FailureWatch::look(const Record& record) {
  switch (record.kind) {
    case RecordKind::step_begin:
      if (record.step.graph == 0) {
        bad_scalars_.clear();
        backward_runs_ = false;
      }
      return "";
    case RecordKind::op:
      return look_at_op(record, place_of(record.site));
    case RecordKind::parameter:
      if (record.op == nullptr || record.tensors.empty()) return "";
      return look_at_named(record, record.op->id, record.tensors.front());
    case RecordKind::step_end:
    case RecordKind::note:
      break;
  }
  return "";
}

}  // namespace sonde
