// Parses the path of a file of MindSpore's dumper. It is the only source of a tensor's step, graph, slot and rank.
#pragma once

#include <cstdint>
#include <string_view>

namespace sonde_mindspore {

struct FilePath {
  std::uint32_t rank = 0, graph = 0, slot = 0;
  std::uint64_t step = 0;
  bool is_input = false;
  std::string_view op_type;
};

// `{path}/rank_0/{net}/{graph}/{step}//{op_type}.{op_name}.0.0.{us}.{input|output}.{slot}.{format}[.{dtype}]`. False:
// it has another form. The views point into `path`.
bool parse_file_path(std::string_view path, FilePath& out);

}  // namespace sonde_mindspore
