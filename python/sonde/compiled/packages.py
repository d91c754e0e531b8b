"""Packages of AOTInductor with taps: the code in a package finds Sonde where it is loaded, and runs on without it.

A package is C++ and may run in another process, or in a program without Python. Its taps call the functions of
adapters/torch/packages.h, found by name when the package runs. The table of nodes is a text in its code.
"""

from collections.abc import Iterator
from typing import Any

from torch import fx

from . import nodes
from .nodes import Table

# In place of the table, until all code is generated.
_TABLE = "the table of nodes"

# Before the functions of the generated code. Extensions of Python are not loaded globally: dlopen() finds the adapter
# by its soname, if it is loaded.
_FUNCTIONS = """
#include <dlfcn.h>
#include <exception>
#include <initializer_list>
namespace {
struct SondeFunctions {
  int (*begin)(const char* table, int64_t* number);
  void (*tap)(int64_t node, void* const* results, int64_t result_count, void* const* given, int64_t given_count);
  void (*name)(const char* name, void* tensor);
  void (*end)(void* const* results, int64_t result_count);
};
// One run of the model: recorded, if Sonde is loaded and records the step.
class SondeRun {
 public:
  SondeRun(const char* table, int64_t* number, AtenTensorHandle* results, int64_t result_count)
      : results_(results), result_count_(result_count), exceptions_(std::uncaught_exceptions()) {
    constexpr const char* kName = "sonde_torch_package_2";
    void* find = dlsym(RTLD_DEFAULT, kName);
    if (find == nullptr) {
      void* adapter = dlopen("_sonde_torch.so", RTLD_LAZY | RTLD_NOLOAD);
      if (adapter == nullptr) return;
      find = dlsym(adapter, kName);
      dlclose(adapter);
    }
    if (find == nullptr) return;
    const auto* functions = reinterpret_cast<const SondeFunctions* (*)()>(find)();
    if (functions->begin(table, number) != 0) functions_ = functions;
  }
  SondeRun(const SondeRun&) = delete;
  ~SondeRun() {
    if (functions_ == nullptr) return;
    const bool has_raised = std::uncaught_exceptions() > exceptions_;
    functions_->end(has_raised ? nullptr : reinterpret_cast<void* const*>(results_), result_count_);
  }
  void name(const char* name, AtenTensorHandle tensor) const {
    if (functions_ != nullptr) functions_->name(name, tensor);
  }
  void tap(int64_t node, std::initializer_list<AtenTensorHandle> results,
           std::initializer_list<AtenTensorHandle> given) const {
    if (functions_ == nullptr) return;
    functions_->tap(node, reinterpret_cast<void* const*>(results.begin()), results.size(),
                    reinterpret_cast<void* const*>(given.begin()), given.size());
  }
 private:
  const SondeFunctions* functions_ = nullptr;
  AtenTensorHandle* results_;
  int64_t result_count_;
  int exceptions_;
};
}  // namespace
"""


def is_packaged() -> bool:
    """True while Inductor compiles a graph for a package."""
    from torch._inductor.virtualized import V

    return V.aot_compilation is True  # PyTorch 2.6: an object, where nothing has set it


def begin_kernel() -> Any:
    """The class of Inductor's operation that begins a run."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    class Begin(ir.FallbackKernel):
        def codegen(self, wrapper: Any) -> None:
            wrapper.header.splice(_FUNCTIONS)
            wrapper.writeline("static int64_t sonde_number = 0;")
            graph: Any = V.graph
            count = len(graph.graph_outputs)
            wrapper.writeline(f'const SondeRun sonde_run("{_TABLE}", &sonde_number, output_handles, {count});')
            names = {**graph.allocated_constant_name, **graph.dynamo_flat_name_to_original_fqn}
            for variable in graph.constants:
                if variable in names:
                    wrapper.writeline(f'sonde_run.name("{_escaped(names[variable])}", {variable});')

    return Begin


def tap_kernel() -> Any:
    """The class of Inductor's operation that is a tap."""
    from torch._inductor import ir

    class Tap(ir.FallbackKernel):
        def codegen(self, wrapper: Any) -> None:
            arguments, _ = self.unflatten_args(self.inputs, self.constant_args)
            _, number, results, given = arguments
            handles = [", ".join(one.codegen_reference() for one in values) for values in (results, given)]
            wrapper.writeline(f"sonde_run.tap({number}, {{{handles[0]}}}, {{{handles[1]}}});")

    return Tap


def with_table(code: str, table: Table) -> str:
    """Generated C++ with the table in its place."""
    marked = f'"{_TABLE}"'
    if marked not in code:
        return code
    text = "".join(f"{line}\n" for line in _lines(_content(table)))
    return code.replace(marked, f'"{_escaped(text)}"')


def root_of(graph: fx.Graph) -> str:
    """`network-Net`: the class of the exported module; of modules it is the outermost."""
    for node in graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            name = kind.rpartition(".")[2] if isinstance(kind, str) else getattr(kind, "__name__", "")
            if nodes.module_place(str(path)) == ("", ()) and name:
                return f"network-{name}"
    return "network"


def _content(table: Table) -> tuple[Any, ...]:
    """The table as adapters/torch/packages.cpp reads it: a list has a length, a tuple has not."""
    rows = []
    for node in table.nodes:
        place = (node.op_type, node.scope, node.scoped, node.trace)
        rows.append((*place, node.is_view, node.tapped, *nodes.facts_of(table, node)))
    return table.package, table.traces, rows, table.results


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.replace("\\", "\\\\").replace("\n", "\\n")
    elif isinstance(value, list | tuple):
        if isinstance(value, list):
            yield str(len(value))
        for one in value:
            yield from _lines(one)
    else:
        yield repr(int(value) if isinstance(value, bool) else value)


def _escaped(text: str) -> str:
    """As the content of a string in C++."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return "".join(plain)
