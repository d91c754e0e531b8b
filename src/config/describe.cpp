// The plan in plain words, as `sonde check` prints it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/op_types.h"
#include "config/selector.h"
#include "sonde/plan.h"
#include "sonde/statistics.h"

namespace sonde {
namespace {

constexpr std::size_t kMostEntries = 20;  // of `kernels` that are explained

std::string entry_in_words(const std::string& entry) {
  switch (kind_of_entry(entry)) {
    case EntryKind::regex:
      return fmt::format("names that as a whole match /{}/", expression_of(entry));
    case EntryKind::full_name:
      return fmt::format("the operator named exactly {}", entry);
    case EntryKind::op_type:
      break;
  }
  std::string text = fmt::format("operators and parameters with '{}' in their type or last name, in any case", entry);
  const std::vector<std::string_view> atens = aten_names(entry);
  if (!atens.empty()) text += fmt::format("; in PyTorch also {}", fmt::join(atens, ", "));
  return text;
}

std::string operators(const Plan& plan) {
  if (plan.dump_mode == DumpMode::flagged) return "operators: those flagged by set_dump\n";
  if (plan.op_debug_mode == 4) return "operators: none (op_debug_mode 4); parameters only\n";
  std::string text = "operators: all\n";
  if (plan.dump_mode == DumpMode::all) {
    if (!plan.kernels.empty())
      text += fmt::format("  kernels lists {}, not used with dump_mode 0\n", plan.kernels.size());
    return text;
  }
  if (plan.kernels.empty()) {
    return plan.empty_kernels_select_all()
               ? "operators: all (dump_mode is 1 and kernels is empty)\n"
               : fmt::format("operators: none (dump_mode is 1 and kernels is empty; version {})\n",
                             info(plan.sonde.version).name);
  }
  text = fmt::format("operators: what one of {} kernels {} matches\n", plan.kernels.size(),
                     plan.kernels.size() == 1 ? "entry" : "entries");
  for (std::size_t i = 0; i < plan.kernels.size() && i < kMostEntries; ++i) {
    text += fmt::format("  {}: {}\n", plan.kernels[i], entry_in_words(plan.kernels[i]));
  }
  if (plan.kernels.size() > kMostEntries) text += fmt::format("  and {} more\n", plan.kernels.size() - kMostEntries);
  return text;
}

std::string steps(const Plan& plan) {
  std::string text;
  if (plan.iteration.is_all()) {
    text = "steps: all";
  } else if (!plan.iteration.last()) {
    text = fmt::format("steps: none, \"{}\" matches no number", plan.iteration.text());
  } else {
    text = fmt::format("steps: {}", plan.iteration.text());
  }
  if (plan.initial_iteration > 0) text += fmt::format(", counted from {}", plan.initial_iteration);
  switch (plan.sonde.step) {
    case StepRule::automatic:
      break;
    case StepRule::optimizer:
      text += "; a step ends when the optimizer has stepped";
      break;
    case StepRule::forward:
      text += "; a step begins with each forward of the model";
      break;
    case StepRule::manual:
      text += "; a step ends where the program calls sonde.step()";
      break;
  }
  return text + "\n";
}

std::string sides(const Plan& plan) {
  switch (plan.input_output) {
    case Sides::inputs:
      return "sides: inputs; no outputs, no parameters\n";
    case Sides::outputs:
      return "sides: outputs and parameters; no inputs\n";
    case Sides::both:
      break;
  }
  return "sides: inputs, outputs and parameters\n";
}

std::string columns(const Plan& plan) {
  std::vector<std::string_view> names;
  for (const Category category : plan.statistic_category) {
    for (const CategoryInfo& info : all_categories()) {
      if (info.category == category) names.push_back(info.column);
    }
  }
  return names.empty() ? "no columns" : fmt::format("{}", fmt::join(names, ", "));
}

std::string data(const Plan& plan) {
  switch (plan.saved_data) {
    case SavedData::graph:
      return "data: none; the graph only\n";
    case SavedData::tensor:
      return "data: tensors, as npy files\n";
    case SavedData::statistic:
      return fmt::format("data: statistics: {}\n", columns(plan));
    case SavedData::full:
      return fmt::format("data: tensors, as npy files, and statistics: {}\n", columns(plan));
  }
  return "";
}

std::string devices(const Plan& plan) {
  if (plan.support_device.empty()) return "devices: none in support_device\n";
  return fmt::format("devices: {}\n", fmt::join(plan.support_device, ", "));
}

// What MindSpore 2.7 does not do on a CPU, or does otherwise, and this plan asks for.
std::string differences(const Plan& plan) {
  std::string text;
  if (plan.wants_statistics()) text += "  statistics are taken on the CPU; MindSpore refuses them there\n";
  if (plan.dump_mode == DumpMode::flagged) text += "  dump_mode 2 is accepted; MindSpore refuses it on a CPU\n";
  if (plan.input_output != Sides::outputs)
    text += "  inputs are taken before the operator runs; MindSpore reads them after\n";
  if (plan.wants_tensors() && !plan.sonde.raw_bfloat16) {
    text += "  bfloat16 is written as float32, which NumPy can read; MindSpore 2.10 writes raw <E2\n";
  }
  for (const std::string& entry : plan.kernels) {
    if (plan.dump_mode != DumpMode::kernels || kind_of_entry(entry) != EntryKind::op_type) continue;
    text += "  an operator type in kernels also matches PyTorch's names for it\n";
    break;
  }
  return text.empty() ? text : "differs from MindSpore:\n" + text;
}

std::string place(const Plan& plan) {
  return fmt::format("written to: {}\n  layout {}\n",
                     (plan.path / "rank_N" / plan.net_name / "GRAPH" / "STEP").string(), info(plan.sonde.layout).name);
}

std::string budget(const Plan& plan) {
  constexpr double kMebi = 1 << 20;
  const std::string_view when_full = plan.sonde.when_full == WhenFull::wait         ? "the training waits"
                                     : plan.sonde.when_full == WhenFull::statistics ? "statistics are written instead"
                                                                                    : "tensors are dropped and counted";
  if (!plan.wants_tensors()) return "";
  return fmt::format("memory: {:g} MiB of tensors on their way to the disk; when that is full {}\n",
                     static_cast<double>(plan.sonde.budget_bytes) / kMebi, when_full);
}

}  // namespace

std::string describe(const Plan& plan) {
  return operators(plan) + steps(plan) + sides(plan) + data(plan) + devices(plan) + place(plan) + budget(plan) +
         differences(plan);
}

}  // namespace sonde
