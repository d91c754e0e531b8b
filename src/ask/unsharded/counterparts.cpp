#include "ask/unsharded/counterparts.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <type_traits>

namespace sonde {
namespace {

constexpr std::size_t kMostCandidates = 16;  // calls at one place, and as many again that have the golden shape,
constexpr std::size_t kMostLookedAt = 512;   // of so many

// `/down` of `blocks/0/down`; of a name alone it is that name, with the slash.
std::string last_part(std::string_view module) {
  const std::size_t at = module.rfind('/');
  return at == std::string_view::npos ? "/" + std::string(module) : std::string(module.substr(at));
}

// One of the two is in the other, or they are the same.
bool are_around(std::string_view a, std::string_view b) {
  const std::string_view longer = a.size() < b.size() ? b : a, shorter = a.size() < b.size() ? a : b;
  return longer.starts_with(shorter) && (longer.size() == shorter.size() || longer[shorter.size()] == '/');
}

// In letters.
std::size_t common_start(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Counterparts::Counterparts(const std::vector<RankStep>& ranks, const GoldenStep& golden, Modules& modules)
    : ranks_(ranks), golden_(golden), modules_(modules) {
  for (const RankStep& rank : ranks_) stages_ = std::max(stages_, rank.stage + 1);
  micro_batches_ = calls_per_golden_call();
}

// Of the modules' ops that read parameters, as most of them have it: by lines, or of two programs by names of modules.
std::size_t Counterparts::calls_per_golden_call() const {
  const std::size_t by_lines = calls_per_golden_call(
      [](const CallSite& site) { return std::tuple(site.place.file, site.place.line, std::string(), std::string()); });
  if (by_lines != 0) return by_lines;
  const std::size_t by_names = calls_per_golden_call(
      [](const CallSite& site) { return std::tuple(std::string(), std::uint32_t{0}, site.module, site.type); });
  return std::max<std::size_t>(1, by_names);
}

// 0: they have no such calls in common.
template <class KeyOf>
std::size_t Counterparts::calls_per_golden_call(const KeyOf& key_of) const {
  std::map<std::invoke_result_t<KeyOf, const CallSite&>, std::size_t> golden, target;
  const auto count = [&](const CompareSide& side, const SiteCalls& calls, auto& into) {
    for (const auto& [site, there] : calls.all()) {
      if (site.place.kind != SiteKind::forward || site.module.empty()) continue;
      const bool reads = std::ranges::any_of(side.ops[there.front().last()].inputs, [](const CompareInput& input) {
        return input.tensor->parameter.is_parameter();
      });
      if (reads) into[key_of(site)] += there.size();
    }
  };
  count(golden_.side(), golden_.calls(), golden);
  for (std::size_t stage = 0; stage < stages_; ++stage) {
    const auto rank = std::ranges::find(ranks_, stage, &RankStep::stage);
    count(*rank->side, rank->calls, target);
  }
  std::map<std::size_t, std::size_t> votes;
  for (const auto& [key, times] : target) {
    const auto found = golden.find(key);
    if (found != golden.end() && times % found->second == 0) ++votes[times / found->second];
  }
  const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  return most == votes.end() ? 0 : most->first;
}

std::size_t Counterparts::calls_at(std::size_t stage, const CallSite& site) const {
  std::size_t most = 0;
  for (const RankStep& rank : ranks_) {
    const std::vector<SiteCall>* calls = rank.stage == stage ? rank.calls.at(site) : nullptr;
    if (calls != nullptr) most = std::max(most, calls->size());
  }
  return most;
}

// A rank's first result has the shape of the golden one.
bool Counterparts::has_shape_of(std::uint32_t golden, const Counterpart& with) const {
  if (golden_.side().ops[golden].outputs.empty()) return false;
  const CatalogTensor& wanted = *golden_.side().ops[golden].outputs.front();
  const TensorParts parts = parts_of(with, {false, wanted.slot});
  for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
    const CatalogTensor* tensor = parts.at(rank, 0).tensor;
    if (tensor != nullptr && tensor->has_shape && wanted.has_shape && tensor->shape == wanted.shape) return true;
  }
  return false;
}

// As many calls for each golden one as there are ranks. A backward pass takes the hops in the other order.
void Counterparts::add_ring_at(std::uint32_t golden, const CallSite& site, std::size_t stage,
                               std::vector<Counterpart>& out) const {
  const auto& [wanted, number] = golden_.calls().address(golden);
  const std::size_t of = golden_.calls().at(wanted)->size();
  const auto ranks = static_cast<std::size_t>(std::ranges::count(ranks_, stage, &RankStep::stage));
  const bool is_ring = ranks > 1 && ranks != micro_batches_ && calls_at(stage, site) == of * ranks;
  const bool is_alike =
      site.type == wanted.type && site.module == wanted.module && site.place.kind == wanted.place.kind;
  if (!is_ring || !is_alike || golden_.is_sharded() || site.module.empty()) return;
  for (const std::size_t step : {ranks - 1, std::size_t{1}}) {
    const std::size_t start = site.place.kind == SiteKind::backward ? step : 0;
    out.push_back({stage, site, number, of, ranks, {}, RingOfBlocks{step, start}});
    if (ranks == 2) break;  // both ways are one
  }
}

// At `site`, for the golden op.
void Counterparts::add_at(std::uint32_t golden, const CallSite& site, std::size_t stage,
                          std::vector<Counterpart>& out) const {
  const auto& [wanted, number] = golden_.calls().address(golden);
  const std::size_t of = golden_.calls().at(wanted)->size();
  const std::size_t there = calls_at(stage, site);
  if (there == 0) return;
  add_ring_at(golden, site, stage, out);
  const bool is_one_type = site.type == wanted.type;
  if (is_one_type && there % of == 0 && (there == of || there / of == micro_batches_)) {
    out.push_back({stage, site, number, of, there / of});
    return;
  }
  std::vector<std::size_t> cuts = {1};
  const bool is_of_module = !site.module.empty() || site.place.kind == SiteKind::backward;
  if (micro_batches_ > 1 && there % micro_batches_ == 0) {
    cuts.insert(is_of_module ? cuts.begin() : cuts.end(), micro_batches_);
  }
  for (const std::size_t calls : cuts) {
    const std::size_t stride = there / calls;
    std::size_t left = kMostCandidates;
    for (std::size_t i = 0; i < std::min(stride, kMostLookedAt) && left > 0; ++i) {
      Counterpart with{stage, site, (number + i) % stride, stride, calls};
      if (i >= kMostCandidates) {  // a rank may have its own experts' parameters far from where the golden run has them
        if (!has_shape_of(golden, with)) continue;
        --left;
      }
      out.push_back(std::move(with));
    }
  }
}

std::vector<Counterpart> Counterparts::of(std::uint32_t golden) const {
  const CallSite& wanted = golden_.calls().address(golden).site;
  std::vector<Counterpart> found;
  std::set<std::pair<std::size_t, CallSite>> seen;
  const auto add = [&](std::size_t stage, const CallSite& site) {
    if (seen.emplace(stage, site).second) add_at(golden, site, stage, found);
  };
  // Those with nearer names first: values may be the same at several, as those of idle experts.
  const auto add_where = [&](const auto& fits) {
    std::vector<std::tuple<std::size_t, std::size_t, const CallSite*>> there;
    for (const RankStep& rank : ranks_) {
      for (const auto& [site, calls] : rank.calls.all()) {
        if (site.place.kind != wanted.place.kind || !fits(site)) continue;
        const std::size_t common =
            common_start(site.module, wanted.module) + common_start(site.parameter, wanted.parameter);
        there.emplace_back(common, rank.stage, &site);
      }
    }
    std::ranges::stable_sort(there, std::greater(), [](const auto& one) { return std::get<0>(one); });
    for (const auto& [common, stage, site] : there) add(stage, *site);
  };
  if (const auto known = learned(wanted.module)) {
    CallSite site = wanted;
    site.module = known->second;
    add(known->first, site);
  }
  for (std::size_t stage = 0; stage < stages_; ++stage) add(stage, wanted);
  add_where([&](const CallSite& site) {
    return site.place == wanted.place && site.module == wanted.module && site.parameter == wanted.parameter;
  });
  // Statistics of two parameters' updates may be alike: those of another one count where no rank has this one's.
  const bool is_known = !wanted.parameter.empty() && !found.empty();
  add_where([&](const CallSite& site) {
    return site.place == wanted.place && site.type == wanted.type && (!is_known || site.parameter.empty());
  });
  if (!found.empty() || wanted.module.empty()) return found;
  const auto is_around = [&](const CallSite& site) {
    return site.module.starts_with(wanted.module) || wanted.module.starts_with(site.module);
  };
  add_where([&](const CallSite& site) {  // other lines: of another implementation of the module
    return is_around(site) && site.type == wanted.type;
  });
  return found;
}

TensorParts Counterparts::parts_of(const Counterpart& of, const CallSlot& slot) const {
  const auto ranks = static_cast<std::size_t>(std::ranges::count(ranks_, of.stage, &RankStep::stage));
  TensorParts parts(ranks, of.calls);
  std::size_t number = 0;
  for (const RankStep& rank : ranks_) {
    if (rank.stage != of.stage) continue;
    const std::vector<SiteCall>* calls = rank.calls.at(of.site);
    for (std::size_t i = 0; calls != nullptr && i < of.calls; ++i) {
      const std::size_t call = of.first + i * of.stride;
      if (call >= calls->size()) continue;
      const CatalogTensor* tensor = tensor_at(rank, (*calls)[call], slot);
      const std::size_t place = of.ring ? (number + of.ring->step * i + of.ring->start) % of.calls : i;
      if (tensor != nullptr && !tensor->skipped.is_undefined()) parts.set(number, place, {rank.rank, tensor});
    }
    ++number;
  }
  return of.alone ? parts.of_rank(*of.alone) : parts;
}

// Also of the modules around it, as far as they have other names.
void Counterparts::learn(std::string_view module, const Counterpart& where) {
  std::string_view target = where.site.module;
  // A copy in a module may be like one in a module inside it.
  if (target != module && are_around(target, module) && has_module(where.stage, module)) return;
  while (!module.empty()) {
    modules_.try_emplace(std::string(module), where.stage, std::string(target));
    const std::size_t at = module.rfind('/'), target_at = target.rfind('/');
    if (at == std::string_view::npos || module.substr(at) != last_part(target)) return;
    module = module.substr(0, at);
    target = target_at == std::string_view::npos ? std::string_view() : target.substr(0, target_at);
  }
}

// The module that is called so in the target, and its stage.
std::optional<std::pair<std::size_t, std::string>> Counterparts::learned(std::string_view module) const {
  for (std::string_view around = module; !around.empty();) {
    const auto known = modules_.find(std::string(around));
    if (known != modules_.end()) {
      std::string_view rest = module.substr(around.size());
      if (known->second.second.empty() && !rest.empty()) rest.remove_prefix(1);
      return std::pair(known->second.first, known->second.second + std::string(rest));
    }
    const std::size_t at = around.rfind('/');
    around = at == std::string_view::npos ? std::string_view() : around.substr(0, at);
  }
  return std::nullopt;
}

bool Counterparts::has_module(std::size_t stage, std::string_view module) const {
  return std::ranges::any_of(ranks_, [&](const RankStep& rank) {
    return rank.stage == stage && std::ranges::any_of(rank.calls.all(), [&](const auto& calls) {
             const std::string_view there = calls.first.module;
             return there.size() >= module.size() && are_around(there, module);
           });
  });
}

// The golden module may be left out: then the one around it is there, if that is not one of several that have numbers.
bool Counterparts::is_elsewhere(std::string_view module, const Counterpart& where) const {
  std::optional<std::pair<std::size_t, std::string>> known = learned(module);
  if (!known && stages_ == 1) known.emplace(0, module);  // if it is called so in the target, too
  if (!known) return false;
  std::string_view there = known->second;
  while (!there.empty() && !has_module(known->first, there)) {
    const std::string_view last = there.substr(there.rfind('/') + 1);
    if (last.find_first_not_of("0123456789") == std::string_view::npos) return false;
    there = there.substr(0, there.size() - std::min(there.size(), last.size() + 1));
  }
  if (there.empty()) return false;
  return known->first != where.stage || !are_around(there, where.site.module);
}

std::optional<Counterparts::Shown> Counterparts::shown(const Counterpart& of) const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!is_of(of, rank)) continue;
    const std::vector<SiteCall>* calls = ranks_[rank].calls.at(of.site);
    if (calls != nullptr && of.first < calls->size()) return Shown{rank, (*calls)[of.first].last()};
  }
  return std::nullopt;
}

// The op with its counterparts on other ranks, and with those for other micro-batches if `of_all`.
Counterpart Counterparts::of(std::size_t rank, std::uint32_t op, bool of_all) const {
  const SiteCalls::Address& address = ranks_[rank].calls.address(op);
  const std::size_t there = calls_at(ranks_[rank].stage, address.site);
  const std::size_t calls = of_all && there % micro_batches_ == 0 ? micro_batches_ : 1;
  const std::size_t stride = there / calls;
  return {ranks_[rank].stage, address.site, address.number % stride, stride, calls};
}

std::size_t Counterparts::number_in_stage(std::size_t rank) const {
  std::size_t number = 0;
  for (std::size_t other = 0; other < rank; ++other) number += ranks_[other].stage == ranks_[rank].stage;
  return number;
}

bool Counterparts::is_of(const Counterpart& with, std::size_t rank) const {
  return ranks_[rank].stage == with.stage && (!with.alone || *with.alone == number_in_stage(rank));
}

}  // namespace sonde
