// Selector: answers "this op, this parameter: record what?" under one plan.
//
//   Selector selector(plan);
//   if (selector.decide_op("Default/network-Net/conv1-Conv2d/conv2d-op0", "conv2d").outputs) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/plan.h"

namespace sonde {

// How an entry of `kernels` is read: "name-regex(…)", a text with '/' or "-op", anything else.
enum class EntryKind : std::uint8_t { regex, full_name, op_type };
EntryKind kind_of_entry(std::string_view entry);
// The expression inside "name-regex(…)"; only for EntryKind::regex.
std::string_view expression_of(std::string_view entry);

// Not synchronised: the owner calls it under its own lock, once per distinct name (the answers never change).
class Selector {
 public:
  struct Wanted {
    bool inputs = false;
    bool outputs = false;
    friend bool operator==(const Wanted&, const Wanted&) = default;
  };
  // An entry of `kernels` that nothing matched.
  struct UnusedEntry {
    std::string text;
    std::vector<std::string> nearest;  // up to three of the names (or op types) that were asked about
  };

  explicit Selector(const Plan& plan);  // copies what it needs
  ~Selector();
  Selector(Selector&&) noexcept;

  // `full_name` as the layout gives it, `op_type` the ATen base name ("relu_"). `flagged`: set_dump
  // was called for it, which matters under dump_mode 2 only.
  Wanted decide_op(std::string_view full_name, std::string_view op_type, bool flagged = false);
  // Parameters, buffers, gradients, constants: recorded when outputs are, and when `name` passes like an op's.
  bool decide_parameter(std::string_view name);

  // In the order of `kernels`; empty unless dump_mode is 1. Suggestions are made for the first 20 only.
  std::vector<UnusedEntry> unused() const;

 private:
  struct State;
  bool selected(std::string_view name, std::string_view op_type, bool flagged);
  std::unique_ptr<State> state_;
};

}  // namespace sonde
