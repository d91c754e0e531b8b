#include "ask/watch/without_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ask/finding/finding.h"
#include "read/measure/slot_values.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

// It changes its first input by another.
bool is_change(OpWork work) {
  using enum OpWork;
  return work == add || work == subtract || work == multiply || work == divide || work == power ||
         work == add_product || work == add_quotient || work == interpolate;
}

const CatalogTensor* slot_of(const CatalogOp& op, bool is_input, std::uint32_t slot) {
  const auto at = std::ranges::find_if(
      op.tensors, [&](const CatalogTensor& tensor) { return tensor.is_input == is_input && tensor.slot == slot; });
  return at == op.tensors.end() ? nullptr : &*at;
}

std::uint32_t slots_of(const CatalogOp& op, bool is_input) {
  std::uint32_t count = 0;
  for (const CatalogTensor& tensor : op.tensors) {
    if (tensor.is_input == is_input) count = std::max(count, tensor.slot + 1);
  }
  return count;
}

// The k-th number of an argument that is a number, or a list of them.
std::optional<double> number_of(const CatalogOp& op, std::initializer_list<std::string_view> names, std::size_t k) {
  if (op.attributes == nullptr) return std::nullopt;
  for (const Attribute& attribute : *op.attributes) {
    if (std::ranges::find(names, attribute.name) == names.end()) continue;
    const std::size_t at = attribute.reals.size() + attribute.integers.size() > 1 ? k : 0;
    if (at < attribute.reals.size()) return attribute.reals[at];
    if (at < attribute.integers.size()) return static_cast<double>(attribute.integers[at]);
  }
  return std::nullopt;
}

// A tensor or a number that an operator reads.
struct Operand {
  std::uint32_t slot = 0;
  const CatalogTensor* input = nullptr;   // as the operator has it
  const CatalogTensor* record = nullptr;  // the record that says what it was
  std::optional<double> number;

  bool exists() const { return input != nullptr || number.has_value(); }
};

// The operation that gives one of the outputs.
struct Call {
  OpWork way = OpWork::add;
  double factor = 1;  // `alpha`, `value`
  Operand self, other, third;
};

// An element that is NaN or infinite is not expected to change.
bool should_change(const Call& call, double self, double other, double third) {
  if (!std::isfinite(self) || std::isnan(other) || std::isnan(third)) return false;
  switch (call.way) {
    case OpWork::add:
    case OpWork::subtract:
      return call.factor * other != 0;
    case OpWork::multiply:
    case OpWork::divide:
      return self != 0 && other != 1;
    case OpWork::power:
      return self != 0 && self != 1 && other != 1;
    case OpWork::add_product:
      return call.factor * other * third != 0;
    case OpWork::add_quotient:
      return call.factor * other != 0;
    case OpWork::interpolate:
      return third != 0 && other != self;
    default:
      return false;
  }
}

double neutral_of(OpWork way) {
  return way == OpWork::multiply || way == OpWork::divide || way == OpWork::power ? 1 : 0;
}
bool is_commutative(OpWork way) { return way == OpWork::add || way == OpWork::multiply; }
bool cancels(OpWork way) { return way == OpWork::subtract || way == OpWork::divide; }

std::string text_of(const Operand& operand) {
  const std::string name = slot_name(true, operand.slot);
  if (operand.number)
    return operand.input != nullptr ? fmt::format("{} = {}", name, number_text(*operand.number))
                                    : number_text(*operand.number);
  return name;
}

std::string hit_text(const Call& call, const Operand& kept, const Operand& other) {
  std::string text = fmt::format("equals {} although ", slot_name(true, kept.slot));
  if (other.number) return text + fmt::format("{} is not {}", text_of(other), neutral_of(call.way));
  return text + fmt::format("{} is not {} everywhere", text_of(other), neutral_of(call.way));
}

std::string cancelled_text(const Call& call) {
  return fmt::format("is {} everywhere: {} and {} are equal", call.way == OpWork::divide ? 1 : 0, text_of(call.self),
                     text_of(call.other));
}

// The values of an operand, for each element of the result.
class Spread {
 public:
  Spread(std::vector<double> values, std::span<const std::int64_t> shape, std::span<const std::int64_t> result)
      : values_(std::move(values)), is_same_(std::ranges::equal(shape, result)) {
    if (is_same_ || values_.size() == 1) return;
    std::vector<std::int64_t> strides(result.size(), 0);
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < shape.size() && i < result.size(); ++i) {
      const std::int64_t size = shape[shape.size() - 1 - i];
      if (size != 1) strides[result.size() - 1 - i] = stride;
      stride *= size;
    }
    index_.assign(1, 0);
    for (std::size_t axis = 0; axis < result.size(); ++axis) {
      std::vector<std::size_t> next;
      next.reserve(index_.size() * static_cast<std::size_t>(result[axis]));
      for (const std::size_t at : index_) {
        for (std::int64_t i = 0; i < result[axis]; ++i)
          next.push_back(at + static_cast<std::size_t>(i * strides[axis]));
      }
      index_ = std::move(next);
    }
  }
  double operator[](std::size_t i) const {
    const std::size_t at = is_same_ ? i : values_.size() == 1 ? 0 : index_[i];
    return at < values_.size() ? values_[at] : std::nan("");
  }

 private:
  std::vector<double> values_;
  bool is_same_;
  std::vector<std::size_t> index_;
};

// --- by statistics ----------------------------------------------------------------------------------------------------

constexpr std::uint64_t kMostExact = 1U << 20;  // elements; a change of the last bit of one of them shows in a sum
constexpr double kSixDigits = 2e-5;

KnownStatistics known_of(const Operand& operand) {
  KnownStatistics number;
  number.max = number.min = number.avg = operand.number;
  if (operand.number) return number;
  return operand.record != nullptr && operand.record->statistics ? *operand.record->statistics : KnownStatistics();
}

bool is_constant(const KnownStatistics& of) { return of.max && of.min && *of.max == *of.min; }
bool is_constant(const KnownStatistics& of, double value) { return is_constant(of) && *of.max == value; }

bool differ(const KnownStatistics& a, const KnownStatistics& b, bool exact) {
  const auto apart = [&](const std::optional<double>& x, const std::optional<double>& y) {
    if (!x || !y || *x == *y) return false;
    return exact || std::abs(*x - *y) > kSixDigits * std::max(std::abs(*x), std::abs(*y));
  };
  return apart(a.max, b.max) || apart(a.min, b.min) || apart(a.avg, b.avg) || apart(a.l2norm, b.l2norm) ||
         (a.zero_count && b.zero_count && *a.zero_count != *b.zero_count);
}

bool same_bytes(const CatalogTensor& a, const CatalogTensor& b) {
  return a.dtype == b.dtype && ((!a.md5.empty() && a.md5 == b.md5) || (!a.sha1.empty() && a.sha1 == b.sha1));
}

bool has_zero(const KnownStatistics& of) {
  return !(of.zero_count == 0U || (of.min && *of.min > 0) || (of.max && *of.max < 0));
}

// All results moved in one direction, if at all, so an equal sum means equal elements.
bool moves_one_way(OpWork way, const KnownStatistics& other) {
  if (!other.max || !other.min) return false;
  if (way == OpWork::add || way == OpWork::subtract) return *other.min >= 0 || *other.max <= 0;
  return (way == OpWork::multiply || way == OpWork::divide) && is_constant(other) &&
         *other.max > 0;  // the sum of squares
}

// Some element must have changed, if the result is not the operand.
bool expects_change(OpWork way, const KnownStatistics& self, const KnownStatistics& other) {
  if (way == OpWork::add || way == OpWork::subtract) return true;  // the other one is not all zero
  const bool never_neutral = is_constant(other) || (other.min && *other.min > 1) || (other.max && *other.max < 1);
  return never_neutral ? !is_constant(self, 0) : !has_zero(self);
}

// Empty: they do not decide it.
std::optional<bool> kept_by_statistics(const Call& call, const Operand& kept, const Operand& other,
                                       const CatalogTensor& output, bool exact) {
  if (kept.record == nullptr || !other.exists()) return std::nullopt;
  const KnownStatistics self = known_of(kept), by = known_of(other);
  const KnownStatistics result = output.statistics.value_or(KnownStatistics());
  if (is_constant(by, neutral_of(call.way)) || call.factor == 0) return false;
  if (differ(self, result, exact)) return false;
  const bool two = call.way == OpWork::add || call.way == OpWork::subtract || call.way == OpWork::multiply ||
                   call.way == OpWork::divide;
  if (!two || !by.max || !by.min || !expects_change(call.way, self, by)) return std::nullopt;
  if (same_bytes(*kept.record, output)) return true;
  if (!exact) return std::nullopt;
  if (is_constant(self) && is_constant(result) && *self.max == *result.max) return true;
  const bool known = self.avg && result.avg && self.l2norm && result.l2norm && self.max && result.max;
  const bool is_small = result.count.value_or(kMostExact) < kMostExact;
  return known && is_small && moves_one_way(call.way, by) ? std::optional(true) : std::nullopt;
}

bool cancelled_by_statistics(const Call& call, const CatalogTensor& output) {
  if (!cancels(call.way) || !output.statistics || call.self.record == nullptr || call.other.number) return false;
  const KnownStatistics& result = *output.statistics;
  const double value = call.way == OpWork::divide ? 1 : 0;
  const KnownStatistics self = known_of(call.self);
  return is_constant(result, value) && result.count.value_or(0) > 1 && self.max && self.min &&
         !is_constant(self, value);
}

bool is_shape_of(const Operand& operand, const CatalogTensor& output) {
  return operand.input != nullptr && operand.input->has_shape && output.has_shape &&
         operand.input->shape == output.shape;
}

// --- by values --------------------------------------------------------------------------------------------------------

class CallReader {
 public:
  CallReader(const CatalogRank& rank, const Call& call, const CatalogTensor& output, std::uint64_t& files_read)
      : rank_(rank), call_(call), output_(output), files_read_(files_read) {}

  // Empty: some values were not saved.
  std::optional<Effect> judge() {
    const bool keeps_self = is_shape_of(call_.self, output_);
    const bool keeps_other = is_commutative(call_.way) && call_.factor == 1 && is_shape_of(call_.other, output_);
    if (!keeps_self && !keeps_other) return Effect();
    const std::optional<std::vector<double>> result = values_of(output_);
    const std::optional<Spread> self = spread(call_.self), other = spread(call_.other);
    const bool needs_third = call_.way == OpWork::add_product || call_.way == OpWork::interpolate;
    const std::optional<Spread> third = needs_third ? spread(call_.third) : Spread({1}, {}, output_.shape.values());
    if (!result || !self || !other || !third) return std::nullopt;
    if (keeps_self && is_kept(*result, *self, *other, *third)) return hit(hit_text(call_, call_.self, call_.other));
    if (keeps_other && is_kept(*result, *other, *self, *third)) return hit(hit_text(call_, call_.other, call_.self));
    if (cancels(call_.way) && is_cancelled(*result, *self, *other)) return hit(cancelled_text(call_));
    return Effect();
  }

  static Effect hit(std::string text) { return {Effect::Kind::hit, std::move(text)}; }

 private:
  std::optional<std::vector<double>> values_of(const CatalogTensor& tensor) {
    const std::optional<SlotValues> values = SlotValues::open(rank_, tensor);
    if (!values || !std::ranges::equal(values->shape(), tensor.shape.values())) return std::nullopt;
    ++files_read_;
    return values->values();
  }

  std::optional<Spread> spread(const Operand& operand) {
    const std::span<const std::int64_t> result = output_.shape.values();
    if (operand.number) return Spread({*operand.number}, {}, result);
    // A view of what another operator made has another shape.
    if (operand.record == nullptr || !operand.input->has_shape || operand.record->shape != operand.input->shape) {
      return std::nullopt;
    }
    std::optional<std::vector<double>> values = values_of(*operand.record);
    return values ? std::optional(Spread(std::move(*values), operand.input->shape.values(), result)) : std::nullopt;
  }

  bool is_kept(const std::vector<double>& result, const Spread& kept, const Spread& other, const Spread& third) const {
    std::size_t expected = 0;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] != kept[i] && !(std::isnan(result[i]) && std::isnan(kept[i]))) return false;
      expected += should_change(call_, kept[i], other[i], third[i]) ? 1 : 0;
    }
    return expected > 0;
  }

  // One element may be equal by chance: a number divided by a number.
  bool is_cancelled(const std::vector<double>& result, const Spread& self, const Spread& other) const {
    const double value = call_.way == OpWork::divide ? 1 : 0;
    bool any = false;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] != value || self[i] != other[i]) return false;
      any = any || self[i] != value;
    }
    return any && result.size() > 1;
  }

  const CatalogRank& rank_;
  const Call& call_;
  const CatalogTensor& output_;
  std::uint64_t& files_read_;
};

Effect judge_statistics(const Call& call, const CatalogTensor& output, bool exact) {
  const auto kept = [&](const Operand& operand, const Operand& other) -> std::optional<bool> {
    return is_shape_of(operand, output) ? kept_by_statistics(call, operand, other, output, exact) : false;
  };
  const std::optional<bool> self = kept(call.self, call.other);
  if (self.value_or(false)) return CallReader::hit(hit_text(call, call.self, call.other));
  const bool both = is_commutative(call.way) && call.factor == 1;
  const std::optional<bool> other = both ? kept(call.other, call.self) : false;
  if (other.value_or(false)) return CallReader::hit(hit_text(call, call.other, call.self));
  if (cancelled_by_statistics(call, output)) return CallReader::hit(cancelled_text(call));
  if (self && other) return {};
  return {Effect::Kind::unknown, output.statistics ? "its values were not saved, and its statistics do not decide it"
                                                   : "its values were not saved"};
}

}  // namespace

bool is_judged_for_effect(std::string_view op_type) { return is_change(work_of(single_type(op_type))); }

void EffectJudge::begin_step(const CatalogStep& step) {
  parameters_.clear();
  for (const CatalogOp& op : step.ops) {
    if (op.is_parameter && !op.tensors.empty()) parameters_[op.op_name] = &op.tensors.front();
  }
}

const CatalogTensor* EffectJudge::record_of(const CatalogTensor& input) const {
  if (input.recorded() || input.constant) return &input;
  if (const auto maker = flow_.maker(input)) {
    const CatalogTensor* made = DataFlow::output(*maker);
    return made != nullptr && made->recorded() ? made : nullptr;
  }
  const auto at = parameters_.find(input.parameter);
  return at != parameters_.end() && at->second->recorded() ? at->second : nullptr;
}

Effect EffectJudge::judge(const CatalogOp& op, const CatalogTensor& output) {
  const OpWork work = work_of(single_type(op.op_type));
  if (!is_change(work) || output.is_input || !is_floating(output.dtype)) return {};
  const bool is_list = nature_of(op.op_type).is_list;
  const std::uint32_t lists = is_list ? slots_of(op, false) : 1, inputs = slots_of(op, true),
                      k = is_list ? output.slot : 0;
  const auto operand = [&](std::uint32_t which, std::initializer_list<std::string_view> names) {
    // One of a list of as many as there are results; one tensor for all of them; a number.
    Operand found;
    found.slot = inputs >= (which + 1) * lists ? which * lists + k : which * lists;
    found.input = slot_of(op, true, found.slot);
    if (which > 0 && found.slot < lists) found.input = nullptr;
    if (found.input != nullptr) {
      found.record = record_of(*found.input);
      found.number = found.input->constant;
    } else {
      found.number = number_of(op, names, k);
    }
    return found;
  };
  Call call;
  call.way = work;
  call.self = operand(0, {"self"});
  const bool has_third =
      call.way == OpWork::add_product || call.way == OpWork::add_quotient || call.way == OpWork::interpolate;
  call.other = operand(1, {"other", "scalar", "scalars", "exponent"});
  if (has_third) call.third = operand(2, {"weight"});
  call.factor = number_of(op,
                          has_third ? std::initializer_list<std::string_view>{"value", "scalar", "scalars"}
                                    : std::initializer_list<std::string_view>{"alpha"},
                          k)
                    .value_or(1);
  if (call.way == OpWork::interpolate) {
    call.factor = 1;
    if (!call.third.exists()) call.third.number = number_of(op, {"weight", "scalar", "scalars"}, k);
  }
  const std::optional<Effect> by_values = CallReader(rank_, call, output, files_read_).judge();
  return by_values ? *by_values : judge_statistics(call, output, rank_.has_journal);
}

}  // namespace sonde
