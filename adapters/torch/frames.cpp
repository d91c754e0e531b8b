#include "frames.h"

#include <cstring>
#include <functional>
#include <string_view>

#include "flags.h"
#include "hash.h"
#include "python_frames.h"

namespace sonde_torch {
namespace {

enum class Owner : std::uint8_t { user, text, nobody };

// File names are compact ASCII in practice; any other kind counts as the user's.
Owner classify(const FrameFacts& facts, PyCodeObject* code) {
  PyObject* name = code->co_filename;
  if (!PyUnicode_IS_COMPACT_ASCII(name)) return Owner::user;
  const char* text = reinterpret_cast<const char*>(reinterpret_cast<PyASCIIObject*>(name) + 1);
  if (text[0] == '<') {
    // `<frozen runpy>` belongs to the interpreter; `<string>` and `<stdin>` have no file, but may contain the whole
    // program.
    return std::strncmp(text, "<ipython", 8) == 0  ? Owner::user
           : std::strncmp(text, "<frozen", 7) == 0 ? Owner::nobody
                                                   : Owner::text;
  }
  for (const std::string& prefix : facts.skipped_prefixes) {
    if (prefix.empty() || std::strncmp(text, prefix.c_str(), prefix.size()) != 0) continue;
    const char* rest = text + prefix.size();
    // Installed packages are below the standard library's directory.
    if (std::strncmp(rest, "site-packages/", 14) == 0 || std::strncmp(rest, "dist-packages/", 14) == 0) continue;
    return Owner::nobody;
  }
  return Owner::user;
}

// The memory that the last walk of this thread read, for the next one, which usually reads the same: an operator has
// pushed it out of the cache, and each frame is found only through the one before.
class Trail {
 public:
  void fetch() {
    for (std::size_t i = 0; i < count_; ++i) {
      __builtin_prefetch(places_[i]);
      __builtin_prefetch(static_cast<const char*>(places_[i]) + kLine);
    }
    count_ = 0;
  }
  void add(const void* place) {
    if (count_ < kMost) places_[count_++] = place;
  }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kLine = 64;
  const void* places_[kMost] = {};
  std::size_t count_ = 0;
};

Trail& trail() {
  thread_local Trail trail;
  return trail;
}

// Addresses of code objects are reused when code dies: the line table distinguishes them.
struct KnownCode {
  PyCodeObject* code = nullptr;
  PyObject* filename = nullptr;
  PyObject* line_table = nullptr;
  int first_line = 0;
  Owner owner = Owner::user;
  bool checkpoint = false;  // of torch.utils.checkpoint
  bool graph = false;       // of an FX graph
};

bool is_graph(PyCodeObject* code) {
  PyObject* name = code->co_filename;
  if (!PyUnicode_IS_COMPACT_ASCII(name)) return false;
  const auto* text = reinterpret_cast<const char*>(reinterpret_cast<PyASCIIObject*>(name) + 1);
  return std::string_view(text).starts_with("<eval_with_key>");
}

bool is_checkpoint(PyCodeObject* code) {
  PyObject* name = code->co_filename;
  if (!PyUnicode_IS_COMPACT_ASCII(name)) return false;
  const auto* text = reinterpret_cast<const char*>(reinterpret_cast<PyASCIIObject*>(name) + 1);
  return std::string_view(text).ends_with("/torch/utils/checkpoint.py");
}

const KnownCode& known_code(const FrameFacts& facts, PyCodeObject* code) {
  constexpr std::size_t kKnown = 1024;
  thread_local std::vector<KnownCode> known(kKnown);
  KnownCode& entry = known[mix(0, reinterpret_cast<std::uint64_t>(code)) % kKnown];
  trail().add(&entry);
  trail().add(&code->co_firstlineno);
  if (entry.code != code || entry.filename != code->co_filename || entry.line_table != code->co_linetable ||
      entry.first_line != code->co_firstlineno) {
    entry = {code,
             code->co_filename,
             code->co_linetable,
             code->co_firstlineno,
             classify(facts, code),
             is_checkpoint(code),
             is_graph(code)};
  }
  return entry;
}

Owner owner_of(const FrameFacts& facts, PyCodeObject* code) { return known_code(facts, code).owner; }

std::uint64_t text_hash(PyObject* text) {
  if (!PyUnicode_IS_COMPACT_ASCII(text)) return 0;
  const auto* characters = reinterpret_cast<const char*>(reinterpret_cast<PyASCIIObject*>(text) + 1);
  const auto length = static_cast<std::size_t>(reinterpret_cast<PyASCIIObject*>(text)->length);
  return std::hash<std::string_view>{}({characters, length});
}

}  // namespace

FrameMark current_frame() { return top_frame(); }

void walk_frames(const FrameFacts& facts, FrameMark mark, Until until, Walk& out) {
  out.module_count = 0;
  out.code = nullptr;
  out.graph_code = nullptr;
  out.graph_module = nullptr;
  out.inside_step = false;
  out.recomputes = false;
  out.flagged = false;
  Trail& walked = trail();
  walked.fetch();
  const Flags* undecided = flags();
  const auto ask = [&](const void* target) {
    const auto known = undecided->find(target);
    if (known == undecided->end()) return;
    out.flagged = known->second;
    undecided = nullptr;
  };
  PyCodeObject* text_code = nullptr;
  int text_instruction = 0;
  std::uint64_t hash = 0x243F6A8885A308D3ULL;
  for (const PythonFrame* frame = top_frame(); frame != nullptr && frame != mark; frame = previous(frame)) {
    walked.add(frame);
    PyCodeObject* code = code_of(frame);
    if (code == facts.module_call) {
      PyObject* module = first_argument(frame);
      if (module == nullptr) continue;
      if (out.module_count < kMaxModules) ++out.module_count;
      if (undecided != nullptr) ask(module);
      out.modules[out.module_count - 1] = module;  // of a deeper chain, the last entry is always the outermost module
      hash = mix(hash, reinterpret_cast<std::uint64_t>(module));
      continue;
    }
    if (undecided != nullptr) ask(code);
    if (until == Until::optimizer_step && code == facts.optimizer_step) {
      if (out.module_count == 0 && out.code == nullptr) {
        until = Until::root;  // the user's line is the one that called step()
        continue;
      }
      out.inside_step = true;
      break;
    }
    if (mark != nullptr && !out.recomputes) out.recomputes = known_code(facts, code).checkpoint;
    if (out.code != nullptr) {  // a line that several lines call is a place for each: its callers are shown
      hash = mix(mix(hash, reinterpret_cast<std::uint64_t>(code)), static_cast<std::uint64_t>(offset_of(frame)));
      continue;
    }
    const Owner owner = owner_of(facts, code);
    if (owner == Owner::user) {
      out.code = code;
      out.instruction = offset_of(frame);
    } else if (owner == Owner::text && text_code == nullptr) {
      text_code = code;
      text_instruction = offset_of(frame);
      if (out.module_count == 0 && known_code(facts, code).graph) {
        out.graph_code = code;
        out.graph_module = code->co_argcount > 0 ? first_argument(frame) : nullptr;  // whoever called it
        out.graph_instruction = text_instruction;
      }
    }
  }
  if (out.code == nullptr && text_code != nullptr) {
    out.code = text_code;
    out.instruction = text_instruction;
  }
  if (out.code != nullptr) {
    hash = mix(hash, reinterpret_cast<std::uint64_t>(out.code));
    // Code that is executed again and again (cells, exec) gets the same addresses.
    hash = mix(hash, reinterpret_cast<std::uint64_t>(out.code->co_linetable));
    hash = mix(hash, text_hash(out.code->co_filename));
    hash = mix(hash, static_cast<std::uint64_t>(out.code->co_firstlineno));
    hash = mix(hash, static_cast<std::uint64_t>(out.instruction));
  }
  if (out.graph_code != nullptr) {
    hash = mix(mix(hash, reinterpret_cast<std::uint64_t>(out.graph_code)),
               static_cast<std::uint64_t>(out.graph_instruction));
  }
  out.hash = out.flagged ? mix(hash, 0xF1A6) : hash;
}

std::vector<CodePlace> trace_frames(const FrameFacts& facts, FrameMark mark, const Walk& walk, std::size_t most) {
  std::vector<CodePlace> trace;
  for (const PythonFrame* frame = top_frame(); frame != nullptr && frame != mark; frame = previous(frame)) {
    const CodePlace place{code_of(frame), offset_of(frame)};
    const bool begins = trace.empty() && place.code == walk.code && place.instruction == walk.instruction;
    if (!begins && (trace.empty() || owner_of(facts, place.code) != Owner::user)) continue;
    trace.push_back(place);
    if (trace.size() == most) break;
  }
  return trace;
}

CodePlace outermost_frame(FrameMark mark) {
  CodePlace outermost;
  for (const PythonFrame* frame = top_frame(); frame != nullptr && frame != mark; frame = previous(frame)) {
    outermost = {code_of(frame), offset_of(frame)};
  }
  return outermost;
}

bool works_on_module(const FrameFacts& facts, FrameMark mark) {
  for (const PythonFrame* frame = top_frame(); frame != nullptr && frame != mark; frame = previous(frame)) {
    if (code_of(frame)->co_argcount == 0) continue;  // its first slot may never have been written
    PyObject* argument = first_argument(frame);
    if (argument != nullptr && PyObject_TypeCheck(argument, facts.module) != 0) return true;
  }
  return false;
}

std::vector<CodePlace> all_frames() {
  std::vector<CodePlace> frames;
  for (const PythonFrame* frame = top_frame(); frame != nullptr; frame = previous(frame)) {
    frames.push_back({code_of(frame), offset_of(frame)});
  }
  return frames;
}

std::vector<PyObject*> modules_on_stack(const FrameFacts& facts) {
  std::vector<PyObject*> modules;
  for (const PythonFrame* frame = top_frame(); frame != nullptr; frame = previous(frame)) {
    if (code_of(frame) == facts.module_call && first_argument(frame) != nullptr)
      modules.push_back(first_argument(frame));
  }
  return modules;
}

PyObject* outermost_module(const FrameFacts& facts, int& depth) {
  PyObject* outermost = nullptr;
  depth = 0;
  for (const PythonFrame* frame = top_frame(); frame != nullptr; frame = previous(frame)) {
    if (code_of(frame) != facts.module_call || first_argument(frame) == nullptr) continue;
    outermost = first_argument(frame);
    ++depth;
  }
  return outermost;
}

}  // namespace sonde_torch
