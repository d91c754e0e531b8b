#include "ask/relations/shown_by_use.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "ask/relations/standings.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

// A fault may differ by little: an error above some roundings of float32 proves nothing.
constexpr double kMostOfShown = 3e-6;

class Uses {
 public:
  Uses(const Pool& target, const RelationJudgement& judgement)
      : target_(target), judgement_(judgement), errors_(target.tensors.size()) {}

  std::vector<char> find() {
    std::vector<char> shown(target_.tensors.size());
    for (auto op = static_cast<std::uint32_t>(target_.ops.size()); op-- > 0;) {
      for (const std::uint32_t output : target_.ops[op].outputs) {
        errors_[output] = shown_error(output);
        shown[output] = static_cast<char>(errors_[output].has_value());
      }
    }
    return shown;
  }

 private:
  // A part that a choice takes along an axis.
  struct Part {
    std::int64_t axis, begin, end;
    std::uint64_t count;  // elements
  };

  // The relative error that it has at most, if its readers show that this is rounding. Operators behind its maker are
  // known.
  std::optional<double> shown_error(std::uint32_t tensor) const {
    const PoolTensor& own = target_.tensors[tensor];
    if (!is_bad(judgement_.standings[tensor]) || !own.has_fractions() || own.print.count < 2) return std::nullopt;
    std::vector<Part> parts;
    double most = 0;  // of the parts
    for (const std::uint32_t reader : own.readers) {
      const std::optional<double> error = keeps_errors(reader) ? error_behind(reader, own) : std::nullopt;
      if (!error) continue;
      if (const std::optional<Part> part = part_of(reader, own)) {
        parts.push_back(*part);
        most = std::max(most, *error);
      } else if (is_added_up(reader, own) || takes_all(reader, own.print.count)) {
        return error;
      }
    }
    return are_all(std::move(parts), own.print.count) ? std::optional(most) : std::nullopt;
  }

  static std::optional<std::int64_t> whole_number(const CatalogOp& op, std::string_view name) {
    const std::optional<double> number = number_in(op, name);
    return number ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
  }

  std::optional<Part> part_of(std::uint32_t op, const PoolTensor& own) const {
    const bool selects = target_.is_type(op, "select"), slices = target_.is_type(op, "slice");
    if (!selects && !slices) return std::nullopt;
    const CatalogOp& call = target_.catalog_op(op);
    const std::vector<std::int64_t> shape = own.whole_shape();
    const auto axes = static_cast<std::int64_t>(shape.size());
    std::int64_t axis = whole_number(call, "dim").value_or(0);
    if (axis < 0) axis += axes;
    if (axis < 0 || axis >= axes) return std::nullopt;
    const std::int64_t size = shape[static_cast<std::size_t>(axis)];
    const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
    const std::int64_t begin = place(whole_number(call, selects ? "index" : "start").value_or(0));
    const std::int64_t end = selects ? begin + 1 : place(whole_number(call, "end").value_or(size));
    return Part{axis, begin, end, target_.tensors[target_.ops[op].outputs.front()].print.count};
  }

  // Parts along one axis that have nothing in common.
  static bool are_all(std::vector<Part> parts, std::uint64_t count) {
    std::ranges::sort(parts, {}, [](const Part& part) { return std::pair(part.begin, part.end); });
    std::uint64_t all = 0;
    std::int64_t end = 0;
    for (const Part& part : parts) {
      if (part.axis != parts.front().axis || part.begin < end) continue;
      all += part.count;
      end = part.end;
    }
    return !parts.empty() && all >= count;
  }

  // An error of what it reads is an error of its result.
  bool keeps_errors(std::uint32_t op) const {
    const OpKind kind = target_.op(op).kind;
    const bool computes = kind == OpKind::elementwise || kind == OpKind::contraction;
    return target_.is_of_forward(op) && (computes || moves_or_casts(kind));
  }

  // Of what the operator reads, if all of its results are right. A small part of a sum may have a larger error than it.
  std::optional<double> error_behind(std::uint32_t op, const PoolTensor& own) const {
    const bool only_moves = moves_or_casts(target_.op(op).kind);
    double most = 0;
    for (const std::uint32_t output : target_.ops[op].outputs) {
      const std::optional<double> error = error_of(output);
      if (!error) return std::nullopt;
      const double size = only_moves ? 1 : std::max(1.0, rms_of(target_.tensors[output]) / rms_of(own));
      most = std::max(most, *error * size);
    }
    const bool is_rounding = !target_.ops[op].outputs.empty() && most <= kMostOfShown;
    return is_rounding ? std::optional(most) : std::nullopt;
  }

  // Of a result that is golden, or that others show to be right.
  std::optional<double> error_of(std::uint32_t tensor) const {
    const PoolTensor& own = target_.tensors[tensor];
    if (errors_[tensor]) return errors_[tensor];
    if (!is_surely_golden(judgement_, tensor) || !own.has_fractions() || own.print.count < 2) return std::nullopt;
    const TensorDifference& difference = judgement_.relations[tensor].difference;
    constexpr double kUnseen = 10;  // statistics prove a part of an error
    return difference.relative() * (difference.by == ComparedBy::statistics ? kUnseen : 1);
  }

  static double rms_of(const PoolTensor& tensor) {
    return tensor.print.whole.norm / std::sqrt(static_cast<double>(tensor.print.count));
  }

  // All of it, whatever the size of the result. Sums of products hide too much of an error.
  bool is_added_up(std::uint32_t op, const PoolTensor& own) const {
    return own.print.by_values && target_.op(op).kind == OpKind::contraction;
  }

  // Also in parts, as `chunk` does.
  bool takes_all(std::uint32_t op, std::uint64_t count) const {
    std::uint64_t all = 0;
    for (const std::uint32_t output : target_.ops[op].outputs) all += target_.tensors[output].print.count;
    return all >= count;
  }

  const Pool& target_;
  const RelationJudgement& judgement_;
  std::vector<std::optional<double>> errors_;  // by tensor: at most
};

}  // namespace

std::vector<char> shown_by_use(const Pool& target, const RelationJudgement& judgement) {
  return Uses(target, judgement).find();
}

}  // namespace sonde
