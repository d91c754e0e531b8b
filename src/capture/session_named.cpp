// Session for hosts that name their operators and count the steps of their graphs themselves (MindSpore). Such a host
// tells an operator after it ran, with all its tensors, and hands memory out again at once: an address says nothing of
// who wrote what lies there, so every tensor is read where it is told.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "capture/session.h"
#include "graph/host_graph.h"
#include "graph/source_trace.h"

namespace sonde {
namespace {

// Where the host's own files lie when the layout has no place for them.
constexpr const char* kBesideOtherLayouts = ".dump_metadata/mindspore";

// A number beyond it is no graph's: PerGraph would fill the memory up to it.
constexpr std::uint32_t kMostGraphs = 1 << 16;

bool has_rank_tree(LayoutKind layout) {
  return layout >= LayoutKind::mindspore_2_0 && layout <= LayoutKind::mindspore_2_7;
}

// Takes `prefix` off, if it is there.
bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "Gradients/Default/{scope}/Grad_{forward type}/{type}-op{n}", "Default/{scope}/{type}-op{n}".
Site site_of(std::string_view full_name, std::string_view op_type) {
  Site site;
  site.op_type = op_type;
  const bool backward = take_prefix(full_name, "Gradients/");
  take_prefix(full_name, "Default/");
  const auto drop_last = [&] {
    const std::size_t slash = full_name.rfind('/');
    const std::string_view last = slash == std::string_view::npos ? full_name : full_name.substr(slash + 1);
    full_name = slash == std::string_view::npos ? std::string_view() : full_name.substr(0, slash);
    return last;
  };
  drop_last();  // the op itself
  if (backward) {
    std::string_view scope = full_name;
    const std::size_t slash = scope.rfind('/');
    std::string_view last = slash == std::string_view::npos ? scope : scope.substr(slash + 1);
    if (take_prefix(last, "Grad_")) {
      site.forward_op_type = last;
      drop_last();
    }
  }
  site.scope = full_name;
  if (backward) {
    site.phase = Phase::backward;
  } else if (full_name.starts_with("optimizer-")) {
    site.phase = Phase::optimizer;
  } else {
    site.phase = full_name.empty() ? Phase::outside : Phase::forward;
  }
  return site;
}

// `full_name` with another number: where names of files have no scope, those of the host would not tell operators apart.
std::string with_number(const std::string& full_name, std::uint32_t number) {
  std::string_view stem;
  std::uint64_t own = 0;
  if (!split_number(full_name, stem, own)) stem = full_name;
  return fmt::format("{}{}", stem, number);
}

template <std::size_t Size>
bool copy_text(const std::string& text, char (&out)[Size]) {
  if (text.size() >= Size) return false;
  *std::ranges::copy(text, out).out = '\0';
  return true;
}

}  // namespace

Status Session::host_settings(sonde_host_settings& settings) {
  const std::lock_guard lock(mutex_);
  if (watches_) {
    return Error{ErrorCode::unsupported,
                 "dump_scene \"watcher\" is not possible inside this host: it gives the memory of an output to other "
                 "operators as soon as nobody needs it"};
  }
  const bool native_tree = has_rank_tree(plan_.sonde.layout);
  const std::filesystem::path path = native_tree ? plan_.path : plan_.path / kBesideOtherLayouts;
  if (!copy_text(path.string(), settings.path) || !copy_text(plan_.net_name, settings.net_name)) {
    return Error{ErrorCode::invalid_argument, "path or net_name is longer than this host can take"};
  }
  settings.first_iteration = plan_.first_iteration();
  // Of an operator that throws there is no "after".
  settings.inputs_after = plan_.sonde.inputs_after && !catches_ ? 1 : 0;
  host_path_ = path;
  host_names_ = true;
  apply(clock_.modules_exist());  // what the other host has done so far was no step
  return {};
}

bool Session::wants_iteration(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  const bool chosen = host_steps_.wants(iteration);
  if (!chosen || failed_ || excluded_ || !plan_.nothing.empty() || found_enough()) return false;
  return !recorder_ || !recorder_->error();
}

// The caller holds the lock.
Session::NamedOp& Session::named_op(const sonde_named_op& named) {
  const auto [it, fresh] = named_ops_.try_emplace(named.full_name);
  NamedOp& op = it->second;
  if (!fresh) return op;
  Site site = site_of(named.full_name, named.op_type);
  const std::string key = fmt::format("{}|{}|{}", site.scope, site.op_type, site.forward_op_type);
  const auto [known, is_new] = site_ids_.try_emplace(key, static_cast<std::uint32_t>(sites_.size() + 1));
  op.site = known->second;
  if (is_new) {
    site.id = op.site;
    sites_.push_back(site);
    site_keys_.push_back(kNoKey);
    define_site(site.id);
  }
  OpName& name = names_.emplace_back();
  name.id = static_cast<std::uint32_t>(names_.size());
  name.op_type = named.op_type;
  name.full_name = named.full_name;
  op.other_names = other_names_of(named);
  if (recorder_->layout().numbers_throughout()) {
    op.other_names.push_back(name.full_name);
    name.full_name = with_number(name.full_name, nodes_++);
  }
  recorder_->define(name);
  op.name = &name;
  if (selector_->in_order()) return op;
  op.wanted = op.wanted_if_flagged = decide_named(op, named.graph, false);
  if (flags_matter_) op.wanted_if_flagged = decide_named(op, named.graph, true);
  return op;
}

Selector::Wanted Session::decide_named(const NamedOp& op, std::uint32_t graph, bool flagged) {
  Selector::AskedOp asked{.full_name = op.name->full_name,
                          .op_type = op.name->op_type,
                          .scope = sites_[op.site - 1].scope,
                          .flagged = flagged,
                          .graph = graph};
  Selector::Wanted wanted = selector_->decide_op(asked);
  for (const std::string& name : op.other_names) {
    if (wanted.any()) break;
    asked.full_name = name;
    wanted = selector_->decide_op(asked);
  }
  return wanted;
}

// What the execution order and the graph of the host call an operator: that is where users look for names. Of several that
// were made anew only the first step tells which is which; without it any that it may be is meant.
std::vector<std::string> Session::other_names_of(const sonde_named_op& named) {
  std::optional<ExecutionOrderNames>& order = host_orders_[named.graph];
  if (!order) {
    const std::string rank = fmt::format("rank_{}", run_info_.rank);
    const std::string file = fmt::format("ms_execution_order_graph_{}.csv", named.graph);
    Result<ExecutionOrderNames> read = ExecutionOrderNames::read(host_path_ / rank / "execution_order" / file);
    order.emplace(read ? std::move(*read) : ExecutionOrderNames(std::string_view()));
  }
  const std::string_view full_name = named.full_name;
  const bool is_first = named.iteration == plan_.initial_iteration;
  if (is_first) order->name_of(full_name);
  std::vector<std::string> others;
  for (const std::string_view name : order->names_of(full_name)) {
    if (name != full_name) others.emplace_back(name);
  }
  return others;
}

// Of several scopes that hold the op the innermost counts; what was said of the op's own type there, before all.
bool Session::is_flagged(const NamedOp& op) const {
  const Site& site = sites_[op.site - 1];
  if (is_flagged(site)) return true;
  std::string scope = site.scope.empty() ? "Default" : "Default/" + site.scope;
  const std::string& type = site.forward_op_type.empty() ? site.op_type : site.forward_op_type;
  if (const auto own = flagged_scopes_.find(scope + "|" + type); own != flagged_scopes_.end()) return own->second;
  while (true) {
    if (const auto found = flagged_scopes_.find(scope); found != flagged_scopes_.end()) return found->second;
    const std::size_t slash = scope.rfind('/');
    if (slash == std::string::npos) return false;
    scope.resize(slash);
  }
}

bool Session::wants_named(const sonde_named_op& named) {
  const std::lock_guard lock(mutex_);
  if (failed_ || named.graph >= kMostGraphs || !ensure_recorder(true)) return false;
  if (std::string_view(named.op_type) == "Parameter") {
    return emits_parameters_ && selector_->decide_parameter(named.full_name);
  }
  ++named_asked_;
  // What they hold decides, or what ran before them.
  if (holds_ || selector_->in_order() || selector_->follows_producers()) return true;
  const NamedOp& op = named_op(named);
  return (flags_matter_ && is_flagged(op) ? op.wanted_if_flagged : op.wanted).any();
}

unsigned Session::named_op_begin(const sonde_named_op& named, Op& op) {
  const std::lock_guard lock(mutex_);
  if (failed_ || named.graph >= kMostGraphs || !ensure_recorder(true)) return 0;
  const StepId step{named.graph, named.iteration};
  apply(host_steps_.at(step), true);
  announce(step);
  const NamedOp& known = named_op(named);
  begin_record(op, *known.name, step, known.site);
  op.backward = sites_[known.site - 1].phase == Phase::backward;
  const bool flagged = flags_matter_ && is_flagged(known);
  op.wanted = flagged ? known.wanted_if_flagged : known.wanted;
  if (selector_->in_order()) op.wanted = decide_named(known, named.graph, flagged);
  op.record.selected = op.wanted.any();
  return begin_in_mode(op, flagged) | (op.wanted.inputs ? SONDE_WANT_INPUTS : 0u) |
         (op.wanted.outputs ? SONDE_WANT_OUTPUTS : 0u);
}

void Session::named_parameter(const sonde_named_op& named, const sonde_tensor& tensor) {
  const StepId step{named.graph, named.iteration};
  const OpName* name = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (failed_ || !emits_parameters_ || tensor.skip != nullptr) return;
    if (named.graph >= kMostGraphs || !ensure_recorder(true)) return;
    if (!selector_->decide_parameter(named.full_name)) return;
    apply(host_steps_.at(step), true);
    announce(step);
    name = &parameter_name(named.full_name);
  }
  Record reader;
  reader.step = step;
  emit_parameter(*recorder_, *name, tensor, reader, false);
}

void Session::named_step_end() {
  const std::lock_guard lock(mutex_);
  if (recorder_ && named_owner_) apply(host_steps_.end(), true);
}

void Session::flag_scope(std::string_view scope, std::string_view type, bool enabled) {
  const std::lock_guard lock(mutex_);
  std::string key(scope);
  if (!type.empty()) key.append("|").append(type);
  flagged_scopes_[std::move(key)] = enabled;
}

// " (train.py:12)", as the host's graph has it; empty when it does not say.
std::string Session::line_in_graph(const std::string& full_name, std::uint32_t graph) const {
  constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 29;
  const std::filesystem::path file = host_path_ / fmt::format("rank_{}", run_info_.rank) / "graphs" /
                                     fmt::format("ms_output_trace_code_graph_{}.pb", graph);
  std::error_code error;
  if (const std::uintmax_t size = std::filesystem::file_size(file, error); error || size > kLargest) return {};
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const Result<HostGraph> read = read_model_proto(bytes);
  if (!read) return {};
  std::vector<std::string> names;
  for (const auto& [hosts_name, op] : named_ops_) {
    if (op.name == nullptr || op.name->full_name != full_name) continue;
    names = op.other_names;
    names.push_back(hosts_name);
  }
  for (const HostOp& op : read->ops) {
    const bool is_it = std::ranges::find(names, op.full_name) != names.end();
    if (!is_it || op.trace.empty()) continue;
    const SourceLine& line = users_line(op.trace);
    return fmt::format(" ({}:{})", line.file, line.line);
  }
  return {};
}

}  // namespace sonde
