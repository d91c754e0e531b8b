#include "record/capture/named_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "dump/graph/host_graph.h"
#include "dump/graph/source_trace.h"
#include "dump/layout/side_names.h"
#include "dump/layout/trees.h"
#include "ground/files/mapped_file.h"
#include "sonde/sonde.h"

namespace sonde {
namespace {

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
Site site_named(std::string_view op_name, std::string_view op_type) {
  Site site;
  site.op_type = op_type;
  const bool backward = take_prefix(op_name, "Gradients/");
  take_prefix(op_name, "Default/");
  const auto drop_last = [&] {
    const std::size_t slash = op_name.rfind('/');
    const std::string_view last = slash == std::string_view::npos ? op_name : op_name.substr(slash + 1);
    op_name = slash == std::string_view::npos ? std::string_view() : op_name.substr(0, slash);
    return last;
  };
  drop_last();  // the op itself
  if (backward) {
    std::string_view scope = op_name;
    const std::size_t slash = scope.rfind('/');
    std::string_view last = slash == std::string_view::npos ? scope : scope.substr(slash + 1);
    if (take_prefix(last, "Grad_")) {
      site.forward_op_type = last;
      drop_last();
    }
  }
  site.scope = op_name;
  if (backward) {
    site.phase = Phase::backward;
  } else if (op_name.starts_with("optimizer-")) {
    site.phase = Phase::optimizer;
  } else {
    site.phase = op_name.empty() ? Phase::outside : Phase::forward;
  }
  return site;
}

// Scope and type: the name without its number.
std::string_view stem_of(std::string_view op_name) {
  std::string_view stem = op_name;
  std::uint64_t number = 0;
  split_number(op_name, stem, number);
  return stem;
}

}  // namespace

NamedHost::NamedHost(const Plan& plan, SiteTable& sites) : plan_(plan), sites_(sites), steps_(plan.iteration) {}

Result<NamedHostSettings> NamedHost::settings() {
  if (plan_.acl.scene == Scene::watcher) {
    return Error{ErrorCode::unsupported,
                 "dump_scene \"watcher\" is not possible inside this host: it gives the memory of an output to other "
                 "operators as soon as nobody needs it"};
  }
  const std::filesystem::path path = has_rank_tree(plan_.sonde.layout) ? plan_.path : host_directory_in(plan_.path);
  if (path.string().size() >= sizeof sonde_host_settings::path ||
      plan_.net_name.size() >= sizeof sonde_host_settings::net_name) {
    return Error{ErrorCode::invalid_argument, "path or net_name is longer than this host can take"};
  }
  path_ = path;
  // An operator that throws has no "after".
  return NamedHostSettings{.first_step = plan_.first_step(),
                           .inputs_after = plan_.sonde.inputs_after && !plan_.exception_only(),
                           .path = path_};
}

void NamedHost::flag_scope(std::string_view scope, std::string_view type, bool enabled) {
  std::string key(scope);
  if (!type.empty()) key.append("|").append(type);
  flagged_scopes_[std::move(key)] = enabled;
}

NamedHost::Known& NamedHost::find(OpRecorder& ops, const NamedOp& op, std::uint32_t rank) {
  const auto [it, fresh] = known_.try_emplace(std::string(op.op_name));
  Known& known = it->second;
  if (!fresh) return known;
  known.site = sites_.intern(site_named(op.op_name, op.op_type));
  ops.names().define_site(known.site);
  known.other_names = other_names_of(op, rank);
  known.name = &ops.names().of_host(op.op_name, op.op_type);
  if (known.name->op_name != op.op_name) known.other_names.emplace_back(op.op_name);
  if (plan_.save_kernel_args) add_attributes(known, op, rank);
  if (ops.selector().in_order()) return known;
  known.wanted = known.wanted_if_flagged = decide(ops, known, op.step.graph, false);
  if (ops.names().flags_matter()) known.wanted_if_flagged = decide(ops, known, op.step.graph, true);
  return known;
}

Selector::Wanted NamedHost::decide(OpRecorder& ops, const Known& op, std::uint32_t graph, bool flagged) const {
  Selector::AskedOp asked{.op_name = op.name->op_name,
                          .op_type = op.name->op_type,
                          .scope = sites_.at(op.site).scope,
                          .flagged = flagged,
                          .graph = graph};
  Selector::Wanted wanted = ops.selector().decide_op(asked);
  for (const std::string& name : op.other_names) {
    if (wanted.any()) break;
    asked.op_name = name;
    wanted = ops.selector().decide_op(asked);
  }
  return wanted;
}

// The name of an operator in the host's execution order and graph: users look for names there. If several operators
// were recreated, only the first step distinguishes them; without it all candidates are returned.
std::vector<std::string> NamedHost::other_names_of(const NamedOp& op, std::uint32_t rank) {
  std::optional<ExecutionOrderNames>& order = orders_[op.step.graph];
  if (!order) {
    const std::filesystem::path directory = path_ / rank_name(rank) / kOrderDirectory;
    Result<ExecutionOrderNames> read = ExecutionOrderNames::read(directory / order_name(op.step.graph));
    order.emplace(read ? std::move(*read) : ExecutionOrderNames(std::string_view()));
  }
  const bool is_first = op.step.number == plan_.initial_iteration;
  if (is_first) order->name_of(op.op_name);
  std::vector<std::string> others;
  for (const std::string_view name : order->names_of(op.op_name)) {
    if (name != op.op_name) others.emplace_back(name);
  }
  return others;
}

// Of several scopes that contain the op the innermost counts; a flag for the op's own type there has priority.
bool NamedHost::is_flagged(const Known& op) const {
  const Site& site = sites_.at(op.site);
  if (sites_.is_flagged(site)) return true;
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

bool NamedHost::wants(OpRecorder& ops, const NamedOp& op, std::uint32_t rank) {
  if (op.is_parameter()) return ops.tensors().companions().records_parameter(op.op_name);
  ++asked_;
  // Their contents decide, or the ops before them.
  const Selector& selector = ops.selector();
  if (plan_.searches() || selector.in_order() || selector.follows_producers()) return true;
  const Known& known = find(ops, op, rank);
  return (ops.names().flags_matter() && is_flagged(known) ? known.wanted_if_flagged : known.wanted).any();
}

std::uint32_t NamedHost::begin(OpRecorder& ops, const NamedOp& named, std::uint32_t rank, Op& op) {
  const Known& known = find(ops, named, rank);
  const bool flagged = ops.names().flags_matter() && is_flagged(known);
  Selector::Wanted wanted = flagged ? known.wanted_if_flagged : known.wanted;
  if (ops.selector().in_order()) wanted = decide(ops, known, named.step.graph, flagged);
  const std::uint32_t asked =
      ops.begin_named(op, *known.name, sites_.at(known.site), named.step, wanted, flagged, known.attributes_hash);
  if ((asked & SONDE_WANT_ATTRIBUTES) != 0) ops.set_attributes_locked(op, *known.attributes);
  return asked & ~SONDE_WANT_ATTRIBUTES;
}

// The graph file is complete before the graph runs.
Result<HostGraph> NamedHost::graph_of_host(std::uint32_t rank, std::uint32_t graph) const {
  constexpr std::uintmax_t kLargest = std::uintmax_t{1} << 29;
  const std::filesystem::path file = path_ / rank_name(rank) / kGraphsDirectory / graph_name(graph, ".pb");
  const Result<std::string> bytes = read_whole_file(file, kLargest);
  if (!bytes) return bytes.error();
  return read_model_proto(*bytes);
}

void NamedHost::add_attributes(Known& known, const NamedOp& op, std::uint32_t rank) {
  std::optional<StemAttributes>& of_graph = attributes_[op.step.graph];
  if (!of_graph) {
    of_graph.emplace();
    const Result<HostGraph> graph = graph_of_host(rank, op.step.graph);
    if (!graph) return;
    for (const HostOp& of : graph->ops) {
      const auto [found, fresh] = of_graph->try_emplace(std::string(stem_of(of.op_name)), of.attributes);
      if (fresh) continue;
      std::erase_if(found->second, [&](const Attribute& attribute) {
        return std::ranges::find(of.attributes, attribute) == of.attributes.end();
      });
    }
  }
  const std::string stem(stem_of(op.op_name));
  const auto found = of_graph->find(stem);
  if (found == of_graph->end() || found->second.empty()) return;
  known.attributes = &found->second;
  known.attributes_hash = std::hash<std::string>{}(stem + '#' + std::to_string(op.step.graph)) | 1U;
}

// " (train.py:12)", from the host's graph; empty if the graph has no line.
std::string NamedHost::line_in_graph(const FoundOps& found, std::uint32_t rank) const {
  const Result<HostGraph> read = graph_of_host(rank, found.graph);
  if (!read) return {};
  std::vector<std::string> names;
  for (const auto& [hosts_name, op] : known_) {
    if (op.name == nullptr || op.name->op_name != found.op_name) continue;
    names = op.other_names;
    names.push_back(hosts_name);
  }
  // Ops of one scope and type may have another's number in the graph: only a line that they share is certain.
  std::string line;
  for (const HostOp& op : read->ops) {
    if (op.trace.empty() ||
        std::ranges::none_of(names, [&](const auto& name) { return stem_of(name) == stem_of(op.op_name); }))
      continue;
    const SourceLine& users = users_line(op.trace);
    const std::string its = fmt::format(" ({}:{})", users.file, users.line);
    if (!line.empty() && line != its) return {};
    line = its;
  }
  return line;
}

}  // namespace sonde
