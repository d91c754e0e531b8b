// LayoutNames: the names and numbers of ops in a layout, and the names of the files that hold their tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dump/formats/file_names.h"
#include "dump/journal/record.h"
#include "dump/layout/trees.h"
#include "plan/config/plan.h"

namespace sonde {

// The kind of file that holds the tensors.
enum class TensorForm : std::uint8_t {
  npy,        // a .npy file each
  raw,        // a .bin file each, without a header (1.2)
  container,  // one file with all tensors of an op (container.h)
};

// Before 2.7 the name of an op without its scope can occur twice, so the number distinguishes ops. CANN's files contain
// the number of the task that ran the op; 65535 means none.
inline constexpr std::uint32_t kNoTask = 65535;
std::uint32_t task_number(const NamedRecord& record);

// The class of the root module that an op ran in, from its full name: `AlexNet` of
// `Gradients/Default/network1-AlexNet/conv-Conv2d/…`. Empty: outside every module.
std::string_view root_module(std::string_view op_name);

class LayoutNames {
 public:
  // `has_tasks`: Layout::has_tasks(). `exceptions`: the ops that threw have names of their own.
  LayoutNames(LayoutKind kind, Release release, TensorForm form, bool has_tasks, bool exceptions)
      : kind_(kind), release_(release), form_(form), has_tasks_(has_tasks), exceptions_(exceptions) {}

  // Ops with the same key, type and scope share one counter within a step.
  std::string number_key(const Site& site) const;
  // Up to 2.0 the number of an op is that of its node among all nodes of the run, of all types, and not among the ops
  // with its key. So names without scope stay distinct.
  bool numbers_throughout() const { return release_ <= Release::v2_0; }
  // forward   Default/{scope}/{type}-op{n}
  // recompute Default/recompute/{scope}/{type}-op{n}
  // backward  Gradients/Default/{scope}/Grad_{forward type}/{type}-op{n}; before 2.7 `grad{forward type}`
  //           Gradients/Default/{type}-op{n}, the forward op unknown
  // optimizer Default/{scope}/{type}-op{n}, scope `optimizer-SGD`
  std::string op_name(const Site& site, std::uint32_t number) const;

  // 2.0: without the scope, dots kept. 1.2: `/` as `--`. Later: in full, each of `/`, `\`, `.` and space as `_`.
  std::string name_in_files(const OpName& op) const;
  // npy  "{op_type}.{op_name}.{task}.{stream}.{timestamp}.{input|output}.{slot}.{format}.{dtype}.npy"; no dtype before 2.7
  // raw  "{op_name}_{input|output}_{slot}_shape_{sizes}_{Type}_{format}.bin"
  // `attempt`: the number of names already taken; names with a time then have another `timestamp_us`.
  std::string tensor_file_name(const OpName& op, const RecordedTensor& tensor, std::uint32_t task = 0,
                               int attempt = 0) const;
  // "{op_type}.{op_name}.{task}.{stream}.{timestamp}"; 1.2 has no stream. For the container and the files beside it.
  std::string op_file_name(const OpName& op, std::uint32_t task, std::uint64_t timestamp_us) const;
  // The number of the task in names of single tensors and in tables; 0 in synchronous dumps.
  std::uint32_t shown_task(const NamedRecord& record) const { return has_tasks_ ? task_number(record) : 0; }

 private:
  std::string name_prefix(const Site& site) const;

  LayoutKind kind_;
  Release release_;
  TensorForm form_;
  bool has_tasks_, exceptions_;
};

}  // namespace sonde
