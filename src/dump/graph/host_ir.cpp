#include <algorithm>

#include "dump/graph/host_graph.h"
#include "dump/graph/host_trace.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

// `# Fullname with scope: (name)`, `: full_name_with_scope: (name)` or, 2.0, `: (name)`; empty for any other line.
std::string_view full_name_of(std::string_view line) {
  line = trimmed(line);
  if (!line.ends_with(')')) return {};
  line.remove_suffix(1);
  for (const std::string_view head : {"# Fullname with scope: (", ": full_name_with_scope: (", ": ("}) {
    if (!line.starts_with(head)) continue;
    line.remove_prefix(head.size());
    const std::size_t number = line.find_last_not_of("0123456789");
    const bool is_name = number != std::string_view::npos && line.substr(0, number + 1).ends_with("-op");
    const bool is_signature = line.find(") -> (") != std::string_view::npos;
    return is_name && !is_signature && number + 1 < line.size() ? line : std::string_view();
  }
  return {};
}

// 2.7 begins with the outermost line, older versions with the innermost.
bool outermost_comes_first(std::string_view text) { return text.find("# Fullname with scope: (") != text.npos; }

}  // namespace

bool is_bookkeeping(std::string_view op_type) {
  return op_type == "TupleGetItem" || op_type == "MakeTuple" || op_type == "Load" || op_type == "Depend" ||
         op_type == "UpdateState" || op_type == "Return";
}

HostGraph read_ir_text(std::string_view text) {
  HostGraph graph;
  const bool outermost_first = outermost_comes_first(text);
  std::string_view comments;  // the comments of the last op so far
  const auto finish = [&] {
    if (!graph.ops.empty() && !comments.empty()) add_trace(comments, outermost_first, graph.ops.back(), graph.lines);
    comments = {};
  };
  bool in_op = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (const std::string_view name = full_name_of(line); !name.empty()) {
      finish();
      HostOp op;
      op.op_name = name;
      op.op_type = name.substr(name.rfind('/') + 1);
      op.op_type.resize(op.op_type.rfind("-op"));
      in_op = !is_bookkeeping(op.op_type);
      if (in_op) graph.ops.push_back(std::move(op));
    } else if (in_op && trimmed(line).starts_with('#')) {
      // Comments are on adjacent lines, so one view covers all.
      comments = comments.empty() ? line : std::string_view(comments.data(), line.data() + end - comments.data());
    } else {
      finish();
      in_op = false;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  finish();
  return graph;
}

}  // namespace sonde
