#include "packages.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture.h"
#include "compiled.h"
#include "place.h"
#include "setup.h"
#include "sites.h"
#include "thread_state.h"

namespace sonde_torch {
namespace {

// The table is a sequence of lines: a number, or a text in which `\n` and `\\` replace the line's end and a backslash; a
// list is its length and then its items. Throws for anything else.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  std::string text() {
    std::string out;
    const std::string_view line = next();
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool escaped = line[i] == '\\' && i + 1 < line.size();
      out += !escaped ? line[i] : line[++i] == 'n' ? '\n' : line[i];
    }
    return out;
  }

  std::int64_t integer() {
    const std::string_view line = next();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc{} || end != line.data() + line.size()) throw std::invalid_argument("not a number");
    return value;
  }

  double real() { return std::strtod(std::string(next()).c_str(), nullptr); }

  template <typename Item>
  auto list(Item item) {
    std::vector<decltype(item())> items;
    for (std::int64_t count = integer(); count > 0; --count) items.push_back(item());
    return items;
  }

 private:
  std::string_view next() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) throw std::invalid_argument("the table of nodes ends too early");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  std::string_view rest_;
};

SiteLine read_line(Lines& in) {
  SiteLine line;
  line.file = in.text();
  line.line = static_cast<int>(in.integer());
  line.function = in.text();
  return line;
}

NodeInput read_input(Lines& in) {
  NodeInput input;
  input.slot = static_cast<std::uint32_t>(in.integer());
  input.maker = in.integer();
  input.output = static_cast<std::uint32_t>(in.integer());
  return input;
}

NodeOutput read_output(Lines& in) {
  NodeOutput output;
  output.given = in.integer() != 0;
  output.dtype = static_cast<sonde_dtype>(in.integer());
  output.shape = in.list([&] { return in.integer(); });
  return output;
}

NodeAttribute read_attribute(Lines& in) {
  NodeAttribute attribute;
  attribute.name = in.text();
  attribute.kind = static_cast<std::uint32_t>(in.integer());
  attribute.integers = in.list([&] { return in.integer(); });
  attribute.reals = in.list([&] { return in.real(); });
  attribute.text = in.text();
  return attribute;
}

void read_node(Lines& in, const std::string& root, const std::vector<std::vector<SiteLine>>& traces,
               CompiledGraph& graph) {
  const std::string type = in.text(), below = in.text();
  const bool flagged = in.integer() != 0;
  CompiledNode node;
  const SiteText text{below.empty() ? root : root + "/" + below, traces.at(static_cast<std::size_t>(in.integer()))};
  node.site = intern(type.c_str(), SONDE_PHASE_FORWARD, 0, text, flagged);
  node.is_view = in.integer() != 0;
  node.tapped = in.integer() != 0;
  node.inputs = in.list([&] { return read_input(in); });
  node.outputs = in.list([&] { return read_output(in); });
  for (NodeAttribute& one : in.list([&] { return read_attribute(in); })) add_attribute(node, std::move(one));
  if (!add_node(graph, type.c_str(), std::move(node))) throw std::invalid_argument("a node reads a later one");
}

GraphResult read_result(Lines& in) {
  GraphResult result;
  result.position = static_cast<std::size_t>(in.integer());
  result.node = static_cast<std::size_t>(in.integer());
  result.output = static_cast<std::uint32_t>(in.integer());
  return result;
}

// The number of the graph in `table`: (name of the root module, [traces], [nodes], [results]), as _content() of
// packages.py writes it.
std::int64_t define(const char* table) {
  Lines in(table);
  std::string root = scope_of_callers();
  root += (root.empty() ? "" : "/") + in.text();
  const auto traces = in.list([&] { return in.list([&] { return read_line(in); }); });
  auto graph = std::make_unique<CompiledGraph>();
  in.list([&] {
    read_node(in, root, traces, *graph);
    return 0;
  });
  for (const GraphResult& one : in.list([&] { return read_result(in); })) {
    if (!add_result(*graph, one)) throw std::invalid_argument("a result of a node that the graph does not have");
  }
  return keep_graph(std::move(graph));
}

void package_ends(ThreadState& state) {
  if (std::exchange(state.package, nullptr) != nullptr) state.current_root = nullptr;
}

int begin(const char* table, std::int64_t* number) {
  ThreadState& state = thread_state();
  if (is_inert() || state.busy || state.tracing > 0) return 0;
  bool begun = false;
  try {
    const sonde_graph graph = package_begins(state, number);
    begun = capturing() && api().records_graph(graph) != 0;
    set_capture();
    if (begun) {
      const std::atomic_ref<std::int64_t> known(*number);  // two threads may define the graph: each number is valid
      if (!knows_graph(known)) {
        const bool busy = std::exchange(state.busy, true);
        try {
          known = define(table);
        } catch (...) {  // a package of another version of Sonde
          state.busy = busy;
          throw;
        }
        state.busy = busy;
      }
      begin_run(known, graph, nullptr);
    }
  } catch (...) {
    begun = false;
  }
  if (!begun) package_ends(state);
  return begun ? 1 : 0;
}

std::vector<at::Tensor> tensors_of(void* const* handles, std::int64_t count) {
  std::vector<at::Tensor> tensors;
  for (std::int64_t i = 0; i < count; ++i) tensors.push_back(*static_cast<at::Tensor*>(handles[i]));
  return tensors;
}

void tap(std::int64_t node, void* const* results, std::int64_t result_count, void* const* given,
         std::int64_t given_count) {
  tap_node(node, tensors_of(results, result_count), tensors_of(given, given_count));
}

void name(const char* name, void* tensor) {
  if (is_inert()) return;
  ThreadState& state = thread_state();
  state.scratch.describe(*static_cast<at::Tensor*>(tensor), false);
  api().name_tensor(name, state.scratch.get());
}

void end(void* const* results, std::int64_t result_count) {
  end_run([&](std::size_t position) -> const at::Tensor* {
    const bool has = results != nullptr && position < static_cast<std::size_t>(result_count);
    return has ? static_cast<const at::Tensor*>(results[position]) : nullptr;
  });
  package_ends(thread_state());
}

}  // namespace
}  // namespace sonde_torch

const sonde_package_functions* sonde_torch_package_2(void) {
  static const sonde_package_functions functions{sonde_torch::begin, sonde_torch::tap, sonde_torch::name,
                                                 sonde_torch::end};
  return &functions;
}
