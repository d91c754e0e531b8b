#include "face/report/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "dump/layout/trees.h"
#include "ground/base/text.h"
#include "ground/stats/statistics.h"
#include "plan/config/op_types.h"
#include "plan/config/selector.h"

namespace sonde {
namespace {

constexpr std::size_t kMostEntries = 20;  // of `kernels` that are shown

std::string entry_in_words(const std::string& entry, Release rules) {
  switch (kind_of_entry(entry, rules)) {
    case EntryKind::regex:
      return fmt::format("names that match /{}/ completely", expression_of(entry));
    case EntryKind::op_name:
      return fmt::format("the operator named exactly {}", entry);
    case EntryKind::op_type:
      break;
  }
  std::string text = fmt::format("operators and parameters with '{}' in their type or last name, in any case", entry);
  const std::vector<std::string_view> atens = aten_names(entry);
  if (!atens.empty()) text += fmt::format("; in PyTorch also {}", fmt::join(atens, ", "));
  return text;
}

// `layer`, `watcher_nodes`: a name or a type.
std::string names_in_words(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostEntries; ++i) {
    const std::vector<std::string_view> atens = aten_names(names[i]);
    text += fmt::format("    {}: the operator of that name, or of that type", names[i]);
    if (!atens.empty()) text += fmt::format("; in PyTorch also {}", fmt::join(atens, ", "));
    text += "\n";
  }
  if (names.size() > kMostEntries) text += fmt::format("    and {} more\n", names.size() - kMostEntries);
  return text;
}

std::string slots_in_words(const BlacklistEntry& black) {
  std::string text;
  for (const SlotName& slot : black.slots) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", slot.is_input ? "input" : "output", slot.index);
  }
  return fmt::format("    but not {} of {}\n", text.empty() ? "any slot" : text, black.name);
}

std::string list_entry_in_words(const DumpListEntry& entry, const AclSettings& acl) {
  std::string text = entry.model_name.empty() ? std::string(acl.anywhere ? "  anywhere" : "  in every model")
                                              : fmt::format("  in the model {}", entry.model_name);
  const bool watches = acl.scene == Scene::watcher;
  if (watches) {
    text += ": outputs of these, after themselves\n" + names_in_words(entry.watcher_nodes);
    text += entry.layer.empty() ? "    and again after every operator\n" : "    and again after each of\n";
    return text + names_in_words(entry.layer);
  }
  text += entry.layer.empty() && entry.opname_range.empty() ? ": every operator\n" : "\n";
  text += names_in_words(entry.layer);
  for (const OpRange& range : entry.opname_range) {
    text += fmt::format("    in the order in which they run, from {} to {}\n", range.begin, range.end);
  }
  for (const BlacklistEntry& black : entry.opname_blacklist) text += slots_in_words(black);
  for (const BlacklistEntry& black : entry.optype_blacklist) text += slots_in_words(black);
  return text;
}

// For an acl.json and for TorchAir's options.
std::string listed_operators(const Plan& plan) {
  const AclSettings& acl = plan.acl;
  if (acl.dump_list.empty()) return "operators: all\n";
  std::string text = acl.scene == Scene::watcher ? "operators: watched ones\n" : "operators: those of dump_list\n";
  if (acl.single_ops) text += "  outside every module: all (dump_op_switch)\n";
  for (std::size_t i = 0; i < acl.dump_list.size() && i < kMostEntries; ++i) {
    text += list_entry_in_words(acl.dump_list[i], acl);
  }
  if (acl.dump_list.size() > kMostEntries) text += fmt::format("  and {} more\n", acl.dump_list.size() - kMostEntries);
  return text;
}

std::string operators(const Plan& plan) {
  if (plan.saved_data == SavedData::summary) return "operators: none, a summary follows modules\n";
  if (plan.op_debug_mode == 4) return "operators: the one that fails, with its inputs\n";
  if (plan.op_debug_mode == 3 && plan.acl.in_use) return "operators: those with NaN or infinity in an output\n";
  if (plan.acl.in_use) return listed_operators(plan);
  if (plan.dump_mode == DumpMode::flagged) return "operators: those flagged by set_dump\n";
  const std::string_view which = plan.op_debug_mode == 3 ? ", with NaN or infinity in an output" : "";
  std::string text = fmt::format("operators: all{}\n", which);
  if (plan.dump_mode == DumpMode::all) {
    if (!plan.kernels.empty())
      text += fmt::format("  kernels lists {}, not used with dump_mode 0\n", plan.kernels.size());
    return text;
  }
  if (plan.kernels.empty()) {
    return plan.empty_kernels_select_all()
               ? fmt::format("operators: all (dump_mode is 1 and kernels is empty){}\n", which)
               : fmt::format("operators: none (dump_mode is 1 and kernels is empty; version {})\n",
                             info(plan.sonde.version).name);
  }
  text = fmt::format("operators: those that match one of {} kernels {}{}\n", plan.kernels.size(),
                     plan.kernels.size() == 1 ? "entry" : "entries", which);
  for (std::size_t i = 0; i < plan.kernels.size() && i < kMostEntries; ++i) {
    text += fmt::format("  {}: {}\n", plan.kernels[i], entry_in_words(plan.kernels[i], plan.sonde.rules));
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
  if (!plan.sonde.requests.empty()) {
    text += fmt::format("; of an engine, those that work on request {}", fmt::join(plan.sonde.requests, ", "));
  }
  if (const auto last = plan.iteration.last(); plan.sonde.stop_after && last) {
    text += fmt::format("; the program is ended after step {}", *last);
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

std::string_view files(const Plan& plan) {
  if (plan.sonde.layout == LayoutKind::mindspore_1_2) return "bytes without a header, as .bin files";
  return plan.file_format == FileFormat::bin ? "one container of CANN's for each operator" : "npy files";
}

std::string data(const Plan& plan) {
  switch (plan.saved_data) {
    case SavedData::graph:
      return "data: none; the graph only\n";
    case SavedData::summary:
      return "data: a summary: statistics of each module's output, each gradient and the loss\n";
    case SavedData::tensor:
      return fmt::format("data: tensors, as {}\n", files(plan));
    case SavedData::statistic:
      return fmt::format("data: statistics: {}\n", columns(plan));
    case SavedData::full:
      return fmt::format("data: tensors, as {}, and statistics: {}\n", files(plan), columns(plan));
  }
  return "";
}

std::string devices(const Plan& plan) {
  if (plan.every_device) return "devices: all\n";
  if (plan.support_device.empty()) return "devices: none in support_device\n";
  return fmt::format("devices: {}\n", fmt::join(plan.support_device, ", "));
}

// Settings of this plan that MindSpore 2.7 ignores on a CPU, or treats differently.
std::string differences(const Plan& plan) {
  std::string text;
  if (plan.acl.in_use) return text;
  if (plan.wants_statistics()) text += "  statistics are taken on the CPU; MindSpore refuses them there\n";
  if (plan.dump_mode == DumpMode::flagged) text += "  dump_mode 2 is accepted; MindSpore refuses it on a CPU\n";
  if (plan.input_output != Sides::outputs && !plan.sonde.inputs_after)
    text += "  inputs are taken before the operator runs; MindSpore reads them after\n";
  if (plan.wants_tensors() && !plan.sonde.raw_bfloat16) {
    text += "  bfloat16 is written as float32, which NumPy can read; MindSpore 2.10 writes raw <E2\n";
  }
  for (const std::string& entry : plan.kernels) {
    if (plan.dump_mode != DumpMode::kernels) break;
    if (kind_of_entry(entry, plan.sonde.rules) != EntryKind::op_type) continue;
    text += "  an operator type in kernels also matches PyTorch's names for it\n";
    break;
  }
  return text.empty() ? text : "differs from MindSpore:\n" + text;
}

// Most documents describe an older release than the newest, whose names and tree are the default.
std::string release_in_words(const Plan& plan) {
  if (plan.acl.in_use) return "";
  const Release release = plan.sonde.version;
  std::string others;
  for (const ReleaseInfo& other : releases()) {
    if (other.release != release) others += fmt::format("{}{}", others.empty() ? "" : ", ", other.name);
  }
  const Release example = release == Release::v2_3 ? Release::v2_7 : Release::v2_3;
  return fmt::format(
      "  names, numbers, columns and tree are those of MindSpore {}{}; where your documents describe another release "
      "({}):\n  \"sonde_settings\": {{\"version\": \"{}\"}} gives those of {}\n",
      info(release).name, release == releases().back().release ? ", the newest" : "", others, info(example).name,
      info(example).name);
}

std::string place(const Plan& plan) {
  if (plan.saved_data == SavedData::summary) {
    return fmt::format("written to: {}\n", (plan.path / "rank_N" / "summary_RUN").string());
  }
  const LayoutKind layout = plan.sonde.layout;
  const auto path = [&](TreeCase which) {
    return (plan.path / path_in_words(all_levels(tree_of(layout, which)), plan.net_name)).string();
  };
  const bool throws = layout == LayoutKind::acl && plan.acl.is_exception_scene();
  std::string text = fmt::format("written to: {}\n", path(throws ? TreeCase::exceptions : TreeCase::usual));
  if (layout == LayoutKind::acl && !throws) {
    text += fmt::format("  operators outside every module: {}\n", path(TreeCase::no_model));
  }
  text += fmt::format("  layout {}, dialect {}\n", info(layout).name, plan.dialect);
  return text + release_in_words(plan);
}

constexpr double kMebi = 1 << 20;

std::string budget(const Plan& plan) {
  const std::string_view when_full = plan.sonde.when_full == WhenFull::wait         ? "the training waits"
                                     : plan.sonde.when_full == WhenFull::statistics ? "statistics are written instead"
                                                                                    : "tensors are dropped and counted";
  if (!plan.wants_tensors()) return "";
  return fmt::format("memory: {:g} MiB of tensors on their way to the disk; when that is full {}\n",
                     static_cast<double>(plan.sonde.budget_bytes) / kMebi, when_full);
}

std::string ring(const Plan& plan) {
  if (plan.sonde.ring == 0) return "";
  const double most = static_cast<double>(plan.sonde.ring_bytes) / kMebi;
  const std::uint64_t writes = plan.sonde.ring_writes;
  return fmt::format(
      "ring: the last {} of each graph stay in memory, at most {:g} MiB\n"
      "  written when a NaN or infinity reaches the loss, a gradient or a parameter (at most {}, {:g} MiB of the "
      "disk),\n"
      "  on an exception, on {}, and when the program calls sonde.write_ring()\n",
      count_text(plan.sonde.ring, "step"), most, count_text(writes, "time"), static_cast<double>(writes) * most,
      plan.sonde.ring_signal == 0         ? "SIGTERM"
      : plan.sonde.ring_signal == SIGUSR1 ? "SIGTERM or SIGUSR1"
                                          : "SIGTERM or SIGUSR2");
}

std::string overhead(const Plan& plan) {
  if (plan.sonde.max_overhead == 0) return "";
  const std::string_view beyond = plan.saved_data == SavedData::summary
                                      ? "in steps beyond that the loss alone is read"
                                      : "operators and steps beyond that are left out, in turn";
  return fmt::format("max_overhead: {:g} % of the time of a step; {}\n", 100 * plan.sonde.max_overhead, beyond);
}

}  // namespace

std::string describe(const Plan& plan) {
  if (!plan.nothing.empty()) return fmt::format("records nothing: {}\n", plan.nothing);
  return operators(plan) + steps(plan) + sides(plan) + data(plan) + devices(plan) + place(plan) + limits(plan) +
         differences(plan);
}

std::string replicas(const Plan& plan) {
  if (plan.sonde.replicas != Replicas::first) return "";
  return "replicas: of the tensors that several ranks have, the first of these ranks writes the files\n";
}

std::string limits(const Plan& plan) { return budget(plan) + replicas(plan) + ring(plan) + overhead(plan); }

}  // namespace sonde
