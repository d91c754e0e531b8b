#include "ask/compare/compare_quantised.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ask/compare/compare_layers.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

constexpr double kFarAbove = 4;   // a wrong layer loses so many times as much as most others
constexpr double kPassesOn = 10;  // a layer that is not quantised makes no more of what it reads
constexpr double kLeast = 0.04;   // less is the loss of a right layer; the lower bound by statistics is smaller
constexpr double kLeastSeen = 0.01;
constexpr double kAlone = 0.2;        // for a layer with too few others
constexpr double kDoubtful = 0.1;     // a right layer with outliers may lose as much
constexpr double kMostOfAMask = 1;    // whole numbers that are larger are codes
constexpr double kWrongBefore = 0.3;  // behind such an error a layer is not judged

bool is_coarse_code(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::qint8:
    case DType::quint8:
    case DType::qint32:
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2fnuz:
      return true;
    default:
      return false;
  }
}

// `round`, and then a bound or a cast: codes by plain operators.
bool rounds_to_codes(const CompareSide& side, std::uint32_t at) {
  if (work_of(bare_type(side.ops[at].op->op_type)) != OpWork::round) return false;
  std::vector<std::uint32_t> border = {at};
  for (std::size_t i = 0; i < border.size() && i < 8; ++i) {
    for (const std::uint32_t reader : side.ops[border[i]].readers) {
      const std::string type = bare_type(side.ops[reader].op->op_type);
      if (is_clamp(type)) return true;
      const auto& outputs = side.ops[reader].outputs;
      if (!outputs.empty() && is_coarse_code(outputs[0]->dtype)) return true;
      const OpWork work = work_of(type);
      if (work == OpWork::add || work == OpWork::subtract || work == OpWork::multiply) border.push_back(reader);
    }
  }
  return false;
}

bool is_quantiser(const CompareSide& side, std::uint32_t at, Differences& differences) {
  const CompareOp& op = side.ops[at];
  if (is_quantised(bare_type(op.op->op_type))) return true;
  const bool reads_codes = std::ranges::any_of(op.inputs, [&](const CompareInput& input) {
    const bool is_kept = input.from == kNoOp && input.is_read && input.tensor->parameter.is_parameter();
    if (!is_kept || !is_coarse_code(input.tensor->dtype)) return false;
    const TensorOf codes = {side.rank, input.tensor};
    return differences.of(codes, codes).max_size > kMostOfAMask;
  });
  return reads_codes || rounds_to_codes(side, at);
}

// The layers in which a side quantises; empty: it does not.
std::set<std::string> quantised_layers(const CompareSide& side, Differences& differences) {
  std::set<std::string> layers;
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    if (phase_of(*side.ops[i].op) == Phase::forward && is_quantiser(side, i, differences)) {
      layers.insert(layer_of(side.ops[i].scope));
    }
  }
  return layers;
}

// It, or a module in it.
bool is_inside(const std::set<std::string>& layers, const std::string& layer) {
  return std::ranges::any_of(layers, [&](const std::string& one) {
    return one == layer || (!layer.empty() && one.starts_with(layer + ".")) ||
           (!one.empty() && layer.starts_with(one + "."));
  });
}

// The number that a half, or a fourth of all, are not above.
double at_share(std::vector<double> numbers, std::size_t share) {
  if (numbers.empty()) return 0;
  const auto at = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / share);
  std::ranges::nth_element(numbers, at);
  return *at;
}

class QuantisedStep {
 public:
  QuantisedStep(DumpComparison& comparison, std::size_t index, const std::set<std::string>& layers, bool in_target)
      : comparison_(comparison),
        step_(comparison.steps[index]),
        index_(index),
        layers_(layers),
        in_target_(in_target),
        losses_(layer_losses(step_, index)) {
    for (const LayerLoss& loss : losses_) {
      if (is_inside(layers_, loss.layer)) quantised_.push_back(&loss);
    }
  }

  // If one layer of many rounds, this may be the fault.
  bool can_be_judged() const { return quantised_.size() > 1 || (!quantised_.empty() && losses_.size() <= 2); }

  // Their results are codes, whose scale is unknown.
  bool has_no_layers() const { return quantised_.empty() && layers_.size() > 1; }

  // Then the result of the network decides, where it is a number again.
  void judge_results() {
    const CatalogTensor *mine = result_of(*step_.target), *theirs = result_of(*step_.golden);
    if (mine == nullptr || theirs == nullptr) return;
    const TensorDifference& apart = step_.differences->of({step_.target->rank, mine}, {step_.golden->rank, theirs});
    if (!apart.comparable() || apart.by == ComparedBy::checksum) return;
    const bool is_wrong = apart.relative() > kAlone || apart.different_non_finite > 0;
    const std::string lower = apart.by == ComparedBy::statistics ? "at least " : "";
    if (is_wrong) {
      for (CompareFinding& finding : comparison_.findings) {
        if (finding.step != index_ || finding.uncertain) continue;
        finding.uncertain = true;
        finding.what += "; the layers of the quantised run keep their results as codes and were not compared";
      }
      return;
    }
    leave_out(nullptr);
    step_.notes_of_both.push_back(fmt::format(
        "the {} run is quantised and keeps the results of its layers as codes: only the result of the network "
        "is compared, which has relative error {}{:.2g}",
        in_target_ ? "target's" : "golden", lower, apart.relative()));
  }

  void run() {
    const LayerLoss* wrong = first_wrong();
    leave_out(wrong);
    if (wrong != nullptr) {
      report(*wrong);
    } else {
      note();
    }
  }

 private:
  // The last number with several elements that an op of the network gives.
  static const CatalogTensor* result_of(const CompareSide& side) {
    const CatalogTensor* result = nullptr;
    for (const CompareOp& op : side.ops) {
      if (phase_of(*op.op) != Phase::forward || op.scope.find("network") == std::string_view::npos) continue;
      for (const CatalogTensor* output : op.outputs) {
        const bool is_result = is_floating(output->dtype) && output->recorded() && !squeezed(output->shape).empty();
        if (is_result) result = output;
      }
    }
    return result;
  }

  double least(const LayerLoss& loss) const { return loss.by == ComparedBy::statistics ? kLeastSeen : kLeast; }

  // The middle of the losses of the layers before it; for the first one of those after it, which its error reaches.
  double usual(const LayerLoss& but) const {
    std::vector<double> before, after;
    for (const LayerLoss* one : quantised_) {
      if (one != &but) (one->place < but.place ? before : after).push_back(one->introduced);
    }
    return before.empty() ? at_share(std::move(after), 4) : at_share(std::move(before), 2);
  }

  bool is_wrong(const LayerLoss& loss) const {
    if (loss.error_in > kWrongBefore || loss.introduced < least(loss)) return false;
    const double others = usual(loss);
    if (!is_inside(layers_, loss.layer)) return loss.introduced > kPassesOn * std::max(loss.error_in, others);
    const bool has_others = quantised_.size() > 2;
    return loss.introduced > (has_others ? kFarAbove * others : kAlone) && loss.introduced > kFarAbove * loss.error_in;
  }

  const LayerLoss* first_wrong() const {
    const auto at = std::ranges::find_if(losses_, [&](const LayerLoss& loss) { return is_wrong(loss); });
    return at == losses_.end() ? nullptr : &*at;
  }

  // The largest error of a layer that gave its result before.
  double error_before(std::uint32_t place) const {
    double largest = 0;
    for (const LayerLoss& loss : losses_) {
      if (loss.place < place) largest = std::max(largest, loss.error_out);
    }
    return largest;
  }

  // Not an op that quantises, and an error that the loss before it does not explain.
  bool stays(const CompareFinding& finding, const LayerLoss* wrong) const {
    if (finding.certain) return true;
    if (wrong != nullptr && finding.place >= wrong->place) return false;
    const CatalogOp* op = finding.culprit;
    const auto layer = [](const CatalogOp& of) {
      const std::size_t slash = of.op_name.rfind('/');
      return layer_of(std::string_view(of.op_name).substr(0, slash == std::string::npos ? 0 : slash));
    };
    if (op == nullptr || is_inside(layers_, layer(*op))) return false;
    if (!finding.op->target.empty() && is_inside(layers_, layer(*finding.op->target.front()))) return false;
    if (finding.kind == FindingKind::parameter || finding.kind == FindingKind::data) return true;  // from outside
    const Phase phase = phase_of(*op);
    if (phase == Phase::backward || phase == Phase::optimizer) return false;
    if (finding.kind == FindingKind::non_finite || finding.kind == FindingKind::shape) return true;
    const double before = error_before(finding.place);
    if (before == 0) return true;
    if (finding.tensor == nullptr) return false;
    const double error = finding.tensor->difference->relative();
    return error > std::max(kLeast, kPassesOn * before);
  }

  void leave_out(const LayerLoss* wrong) {
    std::erase_if(comparison_.findings, [&](const CompareFinding& finding) {
      if (finding.step != index_ || stays(finding, wrong)) return false;
      if (!finding.op->golden.empty()) const_cast<ComparedOp*>(finding.op)->verdict = OpVerdict::propagated;
      return true;
    });
  }

  void report(const LayerLoss& loss) {
    const auto owner = std::ranges::find_if(
        step_.ops, [&](const ComparedOp& op) { return std::ranges::find(op.target, loss.op) != op.target.end(); });
    if (owner == step_.ops.end()) return;
    CompareFinding finding;
    finding.kind = FindingKind::op;
    finding.step = index_;
    finding.op = &*owner;
    finding.culprit = loss.op;
    finding.place = loss.place;
    const std::string lower = loss.by == ComparedBy::statistics ? "at least " : "";
    finding.what =
        fmt::format("relative error {}{:.3g} in the result of layer {}; ", lower, loss.introduced, loss.layer);
    finding.what += quantised_.size() > 2
                        ? fmt::format("other quantised layers introduce about {:.2g} (--layers)", usual(loss))
                        : "more than a quantisation loses (--layers)";
    finding.uncertain = loss.by != ComparedBy::statistics && loss.introduced < kDoubtful;
    if (finding.uncertain) finding.what += "; values far above the others may lose as much";
    owner->verdict = OpVerdict::introduced;
    comparison_.findings.push_back(std::move(finding));
  }

  void note() {
    const LayerLoss& worst =
        **std::ranges::max_element(quantised_, {}, [](const LayerLoss* one) { return one->introduced; });
    step_.notes_of_both.push_back(fmt::format(
        "the {} run is quantised: {} layers introduce relative errors of {}up to {:.2g} (layer {}), and none "
        "is far above the others (--layers)",
        in_target_ ? "target's" : "golden", quantised_.size(), worst.by == ComparedBy::statistics ? "at least " : "",
        worst.introduced, worst.layer));
  }

  DumpComparison& comparison_;
  ComparedStep& step_;
  std::size_t index_;
  const std::set<std::string>& layers_;
  bool in_target_;
  std::vector<LayerLoss> losses_;  // in order
  std::vector<const LayerLoss*> quantised_;
};

}  // namespace

void judge_quantised(DumpComparison& comparison) {
  for (std::size_t index = 0; index < comparison.steps.size(); ++index) {
    ComparedStep& step = comparison.steps[index];
    const std::set<std::string> mine = quantised_layers(*step.target, *step.differences);
    const std::set<std::string> theirs = quantised_layers(*step.golden, *step.differences);
    if (mine.empty() == theirs.empty()) continue;
    QuantisedStep quantised(comparison, index, mine.empty() ? theirs : mine, theirs.empty());
    if (quantised.can_be_judged()) {
      quantised.run();
    } else if (quantised.has_no_layers()) {
      quantised.judge_results();
    }
  }
}

}  // namespace sonde
