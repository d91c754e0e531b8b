#include "record/capture/op_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dump/graph/execution_order.h"
#include "record/capture/modes/watcher.h"

namespace sonde {
namespace {

constexpr std::uint32_t kNoSeries = ~0U;
// A loop without the end of a step must not fill the memory: each name costs some 500 bytes, here and in the writer.
constexpr std::size_t kMostNames = 1 << 18;

// `op_name` with another number: if file names have no scope, the host's numbers would not distinguish operators.
std::string with_number(std::string_view op_name, std::uint32_t number) {
  std::string_view stem;
  std::uint64_t own = 0;
  if (!split_number(op_name, stem, own)) stem = op_name;
  return fmt::format("{}{}", stem, number);
}

}  // namespace

OpNames::OpNames(const Plan& plan, Selector& selector, const SiteTable& sites)
    : flags_matter_(plan.flags_matter()), selector_(selector), sites_(sites) {}

OpName& OpNames::add(std::string op_type, std::string op_name) {
  OpName& name = names_.emplace_back();
  name.id = static_cast<std::uint32_t>(names_.size());
  name.op_type = std::move(op_type);
  name.op_name = std::move(op_name);
  recorder_->define(name);
  return name;
}

void OpNames::define_site(std::uint32_t id) {
  if (site_defined_.size() < sites_.size()) site_defined_.resize(sites_.size());
  if (site_defined_[id - 1]) return;
  site_defined_[id - 1] = true;
  recorder_->define(sites_.at(id));
}

// Most sites seen while roots are searched are never recorded: the name of a site's ops is made for the first op.
OpNames::Series& OpNames::series_of(const Site& site) {
  if (series_of_site_.size() < sites_.size()) series_of_site_.resize(sites_.size(), kNoSeries);
  std::uint32_t& index = series_of_site_[site.id - 1];
  if (index != kNoSeries) return series_[index];
  const auto next = static_cast<std::uint32_t>(series_.size());
  const auto [known, is_new] = series_ids_.try_emplace(recorder_->layout().names().number_key(site), next);
  if (is_new) series_.emplace_back().op_type = site.op_type;
  index = known->second;
  if (site.forward_site != 0) define_site(site.forward_site);
  define_site(site.id);
  return series_[index];
}

OpNames::Series::Entry& OpNames::entry_of(Series& series, const Site& site, std::uint32_t number) {
  while (series.entries.size() <= number) {
    if (names_.size() >= kMostNames && !series.entries.empty()) {
      if (!std::exchange(reported_limit_, true)) {
        recorder_->note(
            fmt::format("names: {} operators have names of their own; a further one has the name of the "
                        "last of its kind",
                        kMostNames));
      }
      return series.entries.back();
    }
    const auto ordinal = static_cast<std::uint32_t>(series.entries.size());
    const Layout& layout = recorder_->layout();
    const OpName& name =
        add(series.op_type, layout.names().op_name(site, layout.names().numbers_throughout() ? nodes_++ : ordinal));
    Series::Entry& entry = series.entries.emplace_back();
    entry.name = &name;
    if (selector_.in_order()) continue;
    Selector::AskedOp asked{.op_name = name.op_name, .op_type = name.op_type, .scope = site.scope};
    entry.wanted = entry.wanted_if_flagged = selector_.decide_op(asked);
    if (!flags_matter_) continue;
    asked.flagged = true;
    entry.wanted_if_flagged = selector_.decide_op(asked);
  }
  return series.entries[number];
}

OpNames::Selected OpNames::next(const Site& site, std::uint32_t graph, std::uint64_t stamp, bool flagged) {
  Series& series = series_of(site);
  if (series.stamp[graph] != stamp) {
    series.stamp[graph] = stamp;
    series.next[graph] = 0;
  }
  const std::uint32_t number = series.next[graph]++;
  const Series::Entry& entry = entry_of(series, site, number);
  const auto last = static_cast<std::uint32_t>(series.entries.size() - 1);
  Selected selected{entry.name, flagged ? entry.wanted_if_flagged : entry.wanted, series_of_site_[site.id - 1],
                    std::min(number, last)};
  if (!selector_.in_order()) return selected;
  // The selection by an opname_range depends on the ops before it.
  selected.wanted = selector_.decide_op({.op_name = entry.name->op_name,
                                         .op_type = entry.name->op_type,
                                         .scope = site.scope,
                                         .flagged = flagged,
                                         .graph = graph});
  return selected;
}

void OpNames::ran(const Selected& op, std::uint64_t sequence) {
  if (selector_.follows_producers()) ops_of_step_[sequence] = {op.series, op.number};
}

void OpNames::add_producer(std::uint64_t sequence) {
  const auto found = ops_of_step_.find(sequence);
  if (found == ops_of_step_.end()) return;
  const auto [series, number] = found->second;
  Series::Entry& entry = series_[series].entries[number];
  if (entry.wanted.any()) return;
  selector_.add_producer(entry.name->op_name);
  entry.wanted = selector_.decide_op({.op_name = entry.name->op_name, .op_type = entry.name->op_type});
}

const OpName& OpNames::parameter(std::string_view text) {
  const auto known = named_once_.find(text);
  if (known != named_once_.end()) return names_[known->second - 1];
  const OpName& name = add("Parameter", std::string(text));
  named_once_.emplace(text, name.id);
  return name;
}

std::uint32_t OpNames::placement(std::string_view text) {
  const auto known = placements_.find(text);
  if (known != placements_.end()) return known->second;
  const std::uint32_t id = add(std::string(kPlacementType), std::string(text)).id;
  placements_.emplace(text, id);
  return id;
}

const OpName& OpNames::pair(const OpName& reader, const OpName& watched) {
  const std::string text = Watcher::pair_name(reader.op_name, watched.op_name);
  const auto known = named_once_.find(text);
  if (known != named_once_.end()) return names_[known->second - 1];
  const OpName& name = add(watched.op_type, text);
  named_once_.emplace(text, name.id);
  return name;
}

const OpName& OpNames::of_host(std::string_view op_name, std::string_view op_type) {
  const bool numbers = recorder_->layout().names().numbers_throughout();
  return add(std::string(op_type), numbers ? with_number(op_name, nodes_++) : std::string(op_name));
}

}  // namespace sonde
