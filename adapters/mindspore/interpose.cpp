// Second definitions of functions of MindSpore's own dumper. This library is loaded before MindSpore and into the
// global scope, so that the dynamic linker finds these first: MindSpore's dumper visits the operators of a step and
// calls ours for each of them. While Sonde does not record they act like the originals.
//
// Equal in MindSpore 2.7 and 2.10 (CPU), whose strings have the old ABI of libstdc++ (see CMakeLists.txt). No header of
// MindSpore is needed: the names and types below are those of the exported symbols.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "adapter.h"
#include "memory_type.h"
#include "originals.h"

#define SONDE_INTERPOSED __attribute__((visibility("default")))

namespace {

using sonde_mindspore::find_in_mindspore;
using sonde_mindspore::original;

constexpr const char* kDumpToFile = "_ZN9mindspore14DumpJsonParser10DumpToFileERKSsPKvmRKSt6vectorIlSaIlEENS_6TypeIdE";
constexpr const char* kNeedDump = "_ZN9mindspore14DumpJsonParser8NeedDumpERKSs";
constexpr const char* kIsDumpIter = "_ZNK9mindspore14DumpJsonParser10IsDumpIterEj";
constexpr const char* kCurDumpIter = "_ZNK9mindspore14DumpJsonParser13cur_dump_iterEv";
constexpr const char* kCopyDumpJsonToDir = "_ZN9mindspore14DumpJsonParser17CopyDumpJsonToDirEj";
constexpr const char* kCopyMSCfgJsonToDir = "_ZN9mindspore14DumpJsonParser18CopyMSCfgJsonToDirEj";
constexpr const char* kDumpCNodeData = "_ZN9mindspore10CPUE2eDump13DumpCNodeDataERKSt10shared_ptrINS_5CNodeEEj";
constexpr const char* kDumpCNodeInputs = "_ZN9mindspore10CPUE2eDump15DumpCNodeInputsERKSt10shared_ptrINS_5CNodeEERKSs";
constexpr const char* kDumpCNodeOutputs =
    "_ZN9mindspore10CPUE2eDump16DumpCNodeOutputsERKSt10shared_ptrINS_5CNodeEERKSs";
constexpr const char* kDumpSingleAnfNode =
    "_ZN9mindspore10CPUE2eDump17DumpSingleAnfNodeERKSt10shared_ptrINS_7AnfNodeEEmRKSs";
constexpr const char* kDumpParametersData = "_ZN9mindspore10CPUE2eDump18DumpParametersDataEv";

// MindSpore's only DumpJsonParser, which counts the steps; set by the first call of a function below.
std::atomic<const void*> g_parser{nullptr};

}  // namespace

namespace sonde_mindspore {

bool runs_chosen_step() {
  const void* parser = g_parser.load(std::memory_order_relaxed);
  if (parser == nullptr) return true;
  static auto* const current = original<std::uint32_t(const void*)>(kCurDumpIter);
  return current != nullptr && wants_step(current(parser));
}

}  // namespace sonde_mindspore

namespace mindspore {

enum TypeId : int {};
class AnfNode;
class CNode;

class SONDE_INTERPOSED DumpJsonParser {
 public:
  static bool DumpToFile(const std::string& path, const void* data, std::size_t bytes,
                         const std::vector<std::int64_t>& shape, TypeId type);
  bool NeedDump(const std::string& op_name);
  bool IsDumpIter(std::uint32_t step) const;
  void CopyDumpJsonToDir(std::uint32_t rank);
  void CopyMSCfgJsonToDir(std::uint32_t rank);
};

class SONDE_INTERPOSED CPUE2eDump {
 public:
  static void DumpCNodeData(const std::shared_ptr<CNode>& node, std::uint32_t graph);
  static void DumpCNodeInputs(const std::shared_ptr<CNode>& node, const std::string& path);
  static void DumpCNodeOutputs(const std::shared_ptr<CNode>& node, const std::string& path);
  static void DumpSingleAnfNode(const std::shared_ptr<AnfNode>& node, std::size_t output, const std::string& path);
  static void DumpParametersData();
};

namespace {

// A CNode begins with its AnfNode.
const std::shared_ptr<AnfNode>& as_node(const std::shared_ptr<CNode>& node) {
  return reinterpret_cast<const std::shared_ptr<AnfNode>&>(node);
}

}  // namespace

bool DumpJsonParser::DumpToFile(const std::string& path, const void* data, std::size_t bytes,
                                const std::vector<std::int64_t>& shape, TypeId type) {
  if (sonde_mindspore::take(path, data, bytes, shape, type)) return true;
  static auto* const theirs =
      original<bool(const std::string&, const void*, std::size_t, const std::vector<std::int64_t>&, TypeId)>(
          kDumpToFile);
  return theirs != nullptr && theirs(path, data, bytes, shape, type);
}

bool DumpJsonParser::NeedDump(const std::string& op_name) {
  g_parser = this;
  bool is_ours = false;
  const bool wanted = sonde_mindspore::wants(op_name, is_ours);
  if (is_ours) return wanted;
  static auto* const theirs = original<bool(DumpJsonParser*, const std::string&)>(kNeedDump);
  return theirs != nullptr && theirs(this, op_name);
}

bool DumpJsonParser::IsDumpIter(std::uint32_t step) const {
  g_parser = this;
  if (sonde_mindspore::engine() != nullptr) return sonde_mindspore::wants_step(step);
  static auto* const theirs = original<bool(const DumpJsonParser*, std::uint32_t)>(kIsDumpIter);
  return theirs != nullptr && theirs(this, step);
}

// The engine writes the copy in .dump_metadata: it is a copy of the user's configuration, and not of MindSpore's.
void DumpJsonParser::CopyDumpJsonToDir(std::uint32_t rank) {
  if (sonde_mindspore::engine() != nullptr) return;
  static auto* const theirs = original<void(DumpJsonParser*, std::uint32_t)>(kCopyDumpJsonToDir);
  if (theirs != nullptr) theirs(this, rank);
}

// MindSpore's first write after a graph was compiled.
void DumpJsonParser::CopyMSCfgJsonToDir(std::uint32_t rank) {
  if (sonde_mindspore::engine() != nullptr) sonde_mindspore::make_directory();
  static auto* const theirs = original<void(DumpJsonParser*, std::uint32_t)>(kCopyMSCfgJsonToDir);
  if (theirs != nullptr) theirs(this, rank);
}

void CPUE2eDump::DumpCNodeData(const std::shared_ptr<CNode>& node, std::uint32_t graph) {
  static auto* const theirs = original<void(const std::shared_ptr<CNode>&, std::uint32_t)>(kDumpCNodeData);
  if (theirs == nullptr) return;
  const sonde_mindspore::OpScope scope(node.get(), graph);
  theirs(node, graph);
}

// The two parts of DumpCNodeData: an operator's inputs may have been reported before its kernel (launch.cpp).
void CPUE2eDump::DumpCNodeInputs(const std::shared_ptr<CNode>& node, const std::string& path) {
  static auto* const theirs = original<void(const std::shared_ptr<CNode>&, const std::string&)>(kDumpCNodeInputs);
  if (theirs == nullptr || !sonde_mindspore::is_due(sonde_mindspore::Side::inputs)) return;
  const sonde_mindspore::Visit visit(as_node(node), true);
  theirs(node, path);
}

void CPUE2eDump::DumpCNodeOutputs(const std::shared_ptr<CNode>& node, const std::string& path) {
  static auto* const theirs = original<void(const std::shared_ptr<CNode>&, const std::string&)>(kDumpCNodeOutputs);
  if (theirs == nullptr || !sonde_mindspore::is_due(sonde_mindspore::Side::outputs)) return;
  const sonde_mindspore::Visit visit(as_node(node), false);
  theirs(node, path);
}

void CPUE2eDump::DumpSingleAnfNode(const std::shared_ptr<AnfNode>& node, std::size_t output, const std::string& path) {
  static auto* const theirs =
      original<void(const std::shared_ptr<AnfNode>&, std::size_t, const std::string&)>(kDumpSingleAnfNode);
  if (theirs == nullptr) return;
  const sonde_mindspore::Visit visit(node, false);
  theirs(node, output, path);
}

void CPUE2eDump::DumpParametersData() {
  static auto* const theirs = original<void()>(kDumpParametersData);
  if (theirs == nullptr) return;
  const sonde_mindspore::ParameterScope scope;
  theirs();
}

}  // namespace mindspore

extern "C" {

// Null if all functions are in their places; otherwise the symbol that is not.
SONDE_INTERPOSED const char* sonde_mindspore_missing() {
  for (const char* symbol : {kDumpToFile, kNeedDump, kIsDumpIter, kCurDumpIter, kCopyDumpJsonToDir, kCopyMSCfgJsonToDir,
                             kDumpCNodeData, kDumpCNodeInputs, kDumpCNodeOutputs, kDumpParametersData}) {
    if (find_in_mindspore(symbol) == nullptr) return symbol;
  }
  return nullptr;
}

// From now on the engine gets the data that MindSpore dumps. Null, or the reason why this library cannot use that
// engine.
SONDE_INTERPOSED const char* sonde_mindspore_set_engine(const struct sonde_api* api, const sonde_run_info* run,
                                                        const char* directory) {
  const char* why_not = sonde_table_mismatch(api);
  if (why_not == nullptr) sonde_mindspore::set_engine(api, *run, directory);
  return why_not;
}
}
