// Names of tensor files outside the grammar of a dump, or in a grammar that names ops freely: golden files of other
// frameworks, msprobe's files, and those of TorchAir's captured graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sonde {

struct FreeTensorName {
  std::string op_name;  // with the directories before it, if there are any: `layer1/conv`
  std::string op_type;  // empty: unknown
  bool is_input = false;
  std::uint32_t slot = 0;
  std::string key;  // the name of a slot that has more than a number: `attn_mask`, `0.1`; else empty
  std::optional<std::uint64_t> step;
  std::uint64_t timestamp_us = 0;
};

// True if a file of this name may hold a tensor: .npy, .pt, .pth.
bool is_free_tensor_name(std::string_view name);

// `path`: relative to the directory where the names begin. Forms of the last part:
//   {op_name}.{output}.{time}.npy                        golden, as msaccucmp reads them
//   {msprobe's name}.{input|output|kwargs|parameters}.{key}.{npy|pt}, {…}.parameters_grad.{n}.{parameter}.pt
//   {node}_device_{device}_{step}.pt                     TorchAir's captured graphs
//   {name}.{npy|pt|pth}                                  one output of an op of that name
bool has_free_grammar(std::string_view name);  // of one of the first three forms
FreeTensorName parse_free_tensor_name(std::string_view path);

// Parses msprobe's names of records: `Functional.conv2d.0.forward`, `Module.a.b.Conv2d.backward.1`,
// `Module.a.b.Conv2d.parameters_grad.0`, `name_grad.0.debug`. False for other names.
struct MsprobeName {
  std::string_view type;    // `Functional`, `Module`; empty for a single saved tensor (debug)
  std::string_view path;    // of a module: `a.b`
  std::string_view called;  // the called function: `conv2d`, or the class of the module
  bool is_module = false, is_backward = false, is_gradient = false;  // is_gradient: of parameters
  std::uint64_t call = 0;
};
bool parse_msprobe_name(std::string_view name, MsprobeName& out);

}  // namespace sonde
