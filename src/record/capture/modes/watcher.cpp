#include "record/capture/modes/watcher.h"

#include <fmt/format.h>

#include "dump/formats/file_names.h"

namespace sonde {
namespace {

constexpr std::size_t kMostChanges = 20;  // that are reported

}  // namespace

Watcher::Watched& Watcher::ran(const OpName& name, StepId step, std::uint64_t stamp) {
  Watched& watched = ran_[name.id];
  watched = {&name, step, stamp, {}, false};
  return watched;
}

Watcher::Watched* Watcher::find(std::uint32_t name) {
  const auto it = ran_.find(name);
  return it != ran_.end() ? &it->second : nullptr;
}

void Watcher::stopped(Watched& watched, std::string_view why) {
  watched.stopped = true;
  if (!reported_.insert(watched.name->op_name).second) return;
  notes_.push_back(fmt::format("the output of {} was no longer read from some point of its step on: {}",
                               watched.name->op_name, why));
}

void Watcher::changed(const Watched& watched, std::uint32_t slot, std::string_view by) {
  if (++changes_ > kMostChanges) return;
  notes_.push_back(fmt::format("output {} of {} changed in step {}: found after {}", slot, watched.name->op_name,
                               watched.step.number, by));
}

std::string Watcher::pair_name(std::string_view reader, std::string_view watched) {
  return sanitised(reader) + "_To_" + sanitised(watched);
}

std::vector<std::string> Watcher::report() const {
  std::vector<std::string> lines = notes_;
  if (changes_ > kMostChanges) lines.push_back(fmt::format("… and {} more changes", changes_ - kMostChanges));
  if (changes_ == 0 && !ran_.empty()) lines.emplace_back("no watched output changed");
  return lines;
}

}  // namespace sonde
