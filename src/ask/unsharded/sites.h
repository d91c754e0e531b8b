// Sites: where in the program each call of a rank's step is, in words that a sharded run and a run on one process share:
// the module without wrappers, the line, the type. A call is one op, or the ops that one op on a wrapper (DTensor) is made
// of.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ask/compare/compare_side.h"

namespace sonde {

enum class SiteKind : std::uint8_t { forward, backward, optimizer };

struct CodePlace {
  SiteKind kind = SiteKind::forward;
  std::string file;
  std::uint32_t line = 0;
  auto operator<=>(const CodePlace&) const = default;
};

struct CallSite {
  CodePlace place;
  std::string module;     // `blocks/0/up`; empty: outside of modules
  std::string parameter;  // that an op of the optimizer concerns; else empty
  std::string type;
  bool accumulates = false;  // adds to a parameter's `.grad`
  auto operator<=>(const CallSite&) const = default;
};

struct SiteCall {
  std::vector<std::uint32_t> ops;  // of the side
  std::uint32_t last() const { return ops.back(); }
};

// The calls of one rank in one step.
class SiteCalls {
 public:
  explicit SiteCalls(const CompareSide& side);

  using Works = std::set<std::pair<CodePlace, std::string>>;  // place and type, whatever parameter they concern
  Works works() const;
  // The run on one process may be another program, with other lines: calls get the places of its calls. `shared`: works of
  // both runs, which are of one program; a rank may lack them for parameters that another one updates.
  void take_places_of(const SiteCalls& whole, const Works& shared);

  const std::vector<SiteCall>* at(const CallSite& site) const;  // in order; null: none
  const std::map<CallSite, std::vector<SiteCall>>& all() const { return calls_; }
  // Of an op: its site, and the number of its call there.
  struct Address {
    CallSite site;
    std::size_t number = 0;
  };
  const Address& address(std::uint32_t op) const { return addresses_[op]; }

 private:
  void move_site(CallSite site, const CodePlace& from, const CodePlace& to);
  std::string updated_parameter(const CompareOp& op, const std::vector<std::string>& known) const;

  std::map<CallSite, std::vector<SiteCall>> calls_;
  std::vector<Address> addresses_;  // by op
};

// The parameter without names of wrappers, and without what marks its gradient or a state of it: `fc.weight` for
// `module.fc.weight.grad` and `exp_avg.fc.weight`. `known`: names of parameters, sorted.
std::string parameter_of(std::string_view name, const std::vector<std::string>& known);
std::string without_wrappers(std::string_view name, char separator);

// The tensors that a call reads from outside of it, in their order.
std::vector<const CompareInput*> inputs_of(const CompareSide& side, const SiteCall& call);

}  // namespace sonde
