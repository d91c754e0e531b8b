#include "face/report/msprobe_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "face/report/catalog_text.h"
#include "face/report/comparison.h"
#include "face/report/json.h"
#include "face/report/text.h"

namespace sonde {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// As in msprobe's documentation; its code has 0.1 instead of 0.6.
constexpr double kGoodRatio = 0.9, kBadRatio = 0.6, kCosine = 0.9, kCosineDrop = 0.1;
constexpr double kGoodNorm = 0.1, kBadNorm = 0.5, kNormGrowth = 10;

constexpr std::array<std::string_view, 4> kOtherInputs = {"_reduce_scatter_base", "_all_gather_base",
                                                          "all_to_all_single", "batch_isend_irecv"};
constexpr std::array<std::string_view, 9> kNothingToSay = {
    "empty",     "empty_like",   "numpy", "to", "__setitem__", "empty_with_format", "new_empty_strided",
    "new_empty", "empty_strided"};

enum class Mode { values, statistics, checksum };

Mode mode_of(const DumpComparison& comparison) {
  bool any_values = false, any_statistics = false;
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      for (const ComparedTensor& output : op.outputs) {
        any_values |= output.difference->by == ComparedBy::values;
        any_statistics |= output.difference->by == ComparedBy::statistics;
      }
    }
  }
  return any_values ? Mode::values : any_statistics ? Mode::statistics : Mode::checksum;
}

// An infinity has a blank before it.
std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? " inf" : " -inf";
  return fmt::format("{}", value);
}
std::string number(const std::optional<double>& value) { return value ? number(*value) : "N/A"; }

// max, min, mean, norm of one side.
std::array<std::optional<double>, 4> statistics_of(const TensorDifference& difference, bool golden) {
  if (difference.by == ComparedBy::statistics) {
    const KnownStatistics& known = golden ? difference.golden_statistics : difference.statistics;
    return {known.max, known.min, known.avg, known.l2norm};
  }
  if (difference.by != ComparedBy::values) return {};
  const PairSums& sums = difference.sums;
  const auto count = static_cast<double>(sums.count);
  const auto& [nan, up, down] = golden ? sums.golden_non_finite : sums.non_finite;
  const double inf = std::numeric_limits<double>::infinity();
  std::array<std::optional<double>, 4> values = {
      golden ? sums.golden_max : sums.max, golden ? sums.golden_min : sums.min,
      (golden ? sums.golden_sum : sums.sum) / count, std::sqrt(golden ? sums.golden_squares : sums.squares)};
  if (up > 0) values[0] = inf;
  if (down > 0) values[1] = -inf;
  if (up > 0 || down > 0) {
    values[2] = up > 0 && down > 0 ? kUnknown : up > 0 ? inf : -inf;
    values[3] = inf;
  }
  if (nan > 0) values = {kUnknown, kUnknown, kUnknown, kUnknown};
  return values;
}

bool is_bad(const std::optional<double>& value) { return value && !std::isfinite(*value); }

std::optional<double> relative_of(const std::optional<double>& target, const std::optional<double>& golden) {
  if (!target || !golden) return std::nullopt;
  if (*target == *golden) return 0;
  if (std::isnan(*target) || std::isnan(*golden)) return kUnknown;
  if (*golden == 0) return std::numeric_limits<double>::infinity();
  return std::abs((*target - *golden) / *golden);
}

struct Verdict {
  std::string result = "pass";
  std::vector<std::string> messages;
  void add(bool error, const std::string& text) {
    if (error) result = "error";
    if (!error && result == "pass") result = "warning";
    messages.push_back((error ? "error: " : "warning: ") + text);
  }
};

// The worst result of one side of an op, with the words of the rules.
struct DumpSide {
  double least_ratio = 1, least_cosine = 1, norm = 0;
  bool known = false;
};

DumpSide side_of(const std::vector<ComparedTensor>& tensors) {
  DumpSide side;
  for (const ComparedTensor& tensor : tensors) {
    const TensorDifference& difference = *tensor.difference;
    if (!difference.comparable() || difference.by == ComparedBy::checksum || difference.count == 0) continue;
    side.known = true;
    const std::optional<double> norm =
        relative_of(statistics_of(difference, false)[3], statistics_of(difference, true)[3]);
    if (norm && !std::isnan(*norm)) side.norm = std::max(side.norm, *norm);
    if (difference.by != ComparedBy::values) continue;
    const auto all = static_cast<double>(difference.count);
    const auto below = static_cast<double>(difference.sums.below_thousandth + difference.sums.equal_non_finite);
    side.least_ratio = std::min(side.least_ratio, below / all);
    side.least_cosine = std::min(side.least_cosine, difference.cosine);
  }
  return side;
}

bool is_named(const CatalogOp& op, std::span<const std::string_view> names) {
  if (std::ranges::find(names, op.op_type) != names.end()) return true;
  return std::ranges::any_of(names, [&](std::string_view name) {
    return op.op_name.find("." + std::string(name) + ".") != std::string_view::npos;
  });
}

void judge_tensor(const ComparedTensor& tensor, Verdict& verdict) {
  const TensorDifference& difference = *tensor.difference;
  const auto own = statistics_of(difference, false), golden = statistics_of(difference, true);
  const std::string slot = slot_text(*tensor.target);
  if ((is_bad(own[0]) || is_bad(own[1])) && !is_bad(golden[0]) && !is_bad(golden[1])) {
    verdict.add(true, slot + " holds NaN or infinity, the golden one does not");
  }
  if (difference.dtype != difference.golden_dtype) {
    verdict.add(true, fmt::format("{}: types are {} and {}", slot, info(difference.dtype).lower,
                                  info(difference.golden_dtype).lower));
  }
  if (!difference.same_shape) verdict.add(true, slot + ": shapes differ");
}

Verdict verdict_of(const ComparedOp& op, Mode mode) {
  Verdict verdict;
  if (is_named(*op.target.back(), kNothingToSay)) return verdict;
  for (const std::vector<ComparedTensor>* tensors : {&op.inputs, &op.outputs}) {
    for (const ComparedTensor& tensor : *tensors) judge_tensor(tensor, verdict);
  }
  const DumpSide in = side_of(op.inputs), out = side_of(op.outputs);
  if (!in.known || !out.known || is_named(*op.target.back(), kOtherInputs)) return verdict;
  if (mode == Mode::values) {
    if (in.least_ratio > kGoodRatio && out.least_ratio < kBadRatio) {
      verdict.add(true, fmt::format("of all inputs more than {} of the elements agree to a thousandth, of an output "
                                    "less than {}",
                                    kGoodRatio, kBadRatio));
    }
    if (in.least_cosine > kCosine && in.least_cosine - out.least_cosine > kCosineDrop) {
      verdict.add(false, fmt::format("the cosine falls by more than {} from inputs to outputs", kCosineDrop));
    }
    return verdict;
  }
  if (in.norm < kGoodNorm && out.norm > kBadNorm) {
    verdict.add(
        true, fmt::format("norms of inputs differ by less than {}, of an output by more than {}", kGoodNorm, kBadNorm));
  }
  if (in.norm == 0 ? out.norm > kGoodNorm : out.norm > kNormGrowth * in.norm) {
    verdict.add(false, "the norm of an output differs far more than those of inputs");
  }
  return verdict;
}

std::string value_cells(const TensorDifference& difference) {
  if (!difference.comparable() || difference.by != ComparedBy::values) return "N/A,N/A,N/A,N/A,N/A,N/A";
  const PairSums& sums = difference.sums;
  if (sums.non_finite_pairs() != sums.same_non_finite) return "N/A,N/A,N/A,N/A,N/A,N/A";
  const auto all = static_cast<double>(std::max<std::uint64_t>(sums.count, 1));
  const auto share = [&](std::uint64_t below) { return static_cast<double>(below + sums.same_non_finite) / all; };
  const std::string cosine = sums.count == 1 ? "unsupported" : number(std::round(difference.cosine * 1e6) / 1e6);
  return fmt::format("{},{},{},{},{},{}", cosine, number(std::sqrt(sums.error_squares)), number(sums.max_error),
                     number(sums.max_relative), number(share(sums.below_thousandth)),
                     number(share(sums.below_five_thousandths)));
}

std::string statistic_cells(const TensorDifference& difference) {
  const auto own = statistics_of(difference, false), golden = statistics_of(difference, true);
  std::string differences, relatives;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool known = own[i] && golden[i];
    differences += (i > 0 ? "," : "") + (known ? number(*own[i] == *golden[i] ? 0 : *own[i] - *golden[i]) : "N/A");
    const std::optional<double> relative = relative_of(own[i], golden[i]);
    relatives += i > 0 ? "," : "";
    relatives += !relative ? "N/A" : std::isfinite(*relative) ? number(*relative * 100) + "%" : number(*relative);
  }
  return differences + "," + relatives;
}

std::string row_of(const ComparedOp& op, const ComparedTensor& tensor, Mode mode, const Verdict& verdict, bool first) {
  const TensorDifference& difference = *tensor.difference;
  const auto name = [&](const std::vector<const CatalogOp*>& ops, const CatalogTensor* of) {
    if (of == nullptr || ops.empty()) return std::string("N/A");
    return csv_cell(std::string((of->is_input ? ops.front() : ops.back())->op_name) + "." + slot_text(*of));
  };
  std::string row = fmt::format("{},{},{},{},{},{},N/A,N/A,", name(op.target, tensor.target),
                                name(op.golden, tensor.golden), info(difference.dtype).lower,
                                info(difference.golden_dtype).lower, csv_cell(shape_text(difference.shape, '[', ']')),
                                csv_cell(shape_text(difference.golden_shape, '[', ']')));
  if (mode == Mode::checksum) {
    const auto hash = [](const CatalogTensor* of) { return of != nullptr ? std::string(of->md5) : "N/A"; };
    return row + fmt::format("{},{},N/A,{},[]\n", hash(tensor.target), hash(tensor.golden),
                             difference.equal ? "pass" : "Different");
  }
  row += mode == Mode::values ? value_cells(difference) : statistic_cells(difference);
  for (const bool golden : {false, true}) {
    for (const std::optional<double>& value : statistics_of(difference, golden)) row += "," + number(value);
  }
  const Json messages = first ? Json(verdict.messages) : Json::array();
  row += fmt::format(",N/A,{},{}", verdict.result, csv_cell(text_of_json(messages)));
  if (mode == Mode::values) {
    const std::string golden = tensor.golden != nullptr ? std::string(tensor.golden->file) : "";
    row += "," + csv_cell(text_of_json({std::string(tensor.target->file), golden}));
  }
  return row + "\n";
}

std::string header_of(Mode mode) {
  std::string header =
      "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,NPU Requires_grad,Bench "
      "Requires_grad,";
  constexpr std::string_view kStatistics =
      "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm,";
  constexpr std::string_view kTail = "Requires_grad Consistent,Result,Err_message";
  switch (mode) {
    case Mode::values:
      return header + "Cosine,EucDist,MaxAbsErr,MaxRelativeErr,One Thousandth Err Ratio,Five Thousandths Err Ratio," +
             std::string(kStatistics) + std::string(kTail) + ",Data_name\n";
    case Mode::statistics:
      return header +
             "Max diff,Min diff,Mean diff,L2norm diff,MaxRelativeErr,MinRelativeErr,MeanRelativeErr,NormRelativeErr," +
             std::string(kStatistics) + std::string(kTail) + "\n";
    default:
      return header + "NPU MD5,BENCH MD5," + std::string(kTail) + "\n";
  }
}

}  // namespace

std::string msprobe_csv_of(const DumpComparison& comparison) {
  const Mode mode = mode_of(comparison);
  std::string text = header_of(mode);
  for (const ComparedStep& step : comparison.steps) {
    for (const ComparedOp& op : step.ops) {
      if (op.target.empty()) continue;
      if (op.golden.empty()) {
        const bool is_warning = mode == Mode::checksum;
        const auto columns = static_cast<std::size_t>(std::ranges::count(text.substr(0, text.find('\n')), ','));
        std::string row = csv_cell(std::string(op.target.back()->op_name));
        const std::size_t tail = mode == Mode::values ? 4 : 3;  // columns from `Requires_grad Consistent` on
        for (std::size_t i = 1; i + tail <= columns; ++i) row += ",N/A";
        row += std::string(",N/A,") + (is_warning ? "warning" : "N/A") + ",\"[\"\"No bench data matched.\"\"]\"";
        text += row + (mode == Mode::values ? ",N/A\n" : "\n");
        continue;
      }
      const Verdict verdict = verdict_of(op, mode);
      bool first = true;
      for (const std::vector<ComparedTensor>* tensors : {&op.inputs, &op.outputs}) {
        for (const ComparedTensor& tensor : *tensors) {
          text += row_of(op, tensor, mode, verdict, first);
          first = false;
        }
      }
    }
  }
  return text;
}

}  // namespace sonde
