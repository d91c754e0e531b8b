// convert: the tensors of binary files (CANN's containers, nano devices' dumps, raw .bin files of MindSpore 1.2, .npy)
// as .npy, .pt or plain bytes, in their own format or in another one. docs/msaccucmp.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ground/tensor/format.h"
#include "sonde/result.h"

namespace sonde {

// The user's own rules for pairs of formats, run outside of this process. Called from several threads.
class CustomConversions {
 public:
  virtual ~CustomConversions() = default;
  virtual bool has(Format from, Format to) const = 0;
  struct Request {
    Format from, to;
    std::vector<std::int64_t> from_shape, to_shape;  // `to_shape` is empty if unknown
    std::int64_t groups = 1;
    std::filesystem::path elements;  // .npy of one dimension
  };
  // A file to write `elements` into; the caller removes it, and also the file that run() returns.
  virtual std::filesystem::path scratch_file() = 0;
  virtual Result<std::filesystem::path> run(const Request& request) = 0;  // an .npy of the result
};

enum class ConvertedType : std::uint8_t {
  npy,
  bin,    // the elements alone; the name describes them
  msnpy,  // .npy under MindSpore's names
  pt,
};

struct ConvertSpec {
  std::optional<Format> format;                // empty: as they are stored
  std::vector<std::int64_t> shape;             // of the result, if the file's own original shape must not be used
  std::optional<std::uint32_t> input, output;  // only that one
  ConvertedType type = ConvertedType::npy;
  // As in msaccucmp: if no rule converts to `format`, that is an error (otherwise the tensor stays unchanged); and
  // empty slots get their empty file.
  bool is_strict = false;
  CustomConversions* custom = nullptr;  // the user's own rules take precedence over ours
  std::string name;                     // of the file, if its own is a number that replaces a long name
  std::size_t threads = 1;              // for one tensor
};

// The kinds of errors that msaccucmp's statuses distinguish.
enum class ConvertFault : std::uint8_t {
  unreadable,
  damaged,
  size_mismatch,    // of a nano device's dump
  unknown_type,     // no numbers, or an undefined type
  no_rule,          // for this pair of formats
  wrong_shape,      // the requested or the original shape is impossible
  not_in_file,      // no such input or output
  conversion,       // a rule, or a custom script, failed
  bad_name,         // an FFTS+ name without a number of a thread
  slices_mismatch,  // not as many slices as tensors
  not_a_record,     // an overflow record of an unknown kind
  cannot_write,
};

struct ConvertedFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;  // of the tensor in it
};

// A tensor without its file, or, if `what` is empty, a file that could not be read at all.
struct LostTensor {
  ConvertFault fault = ConvertFault::damaged;
  std::string what;     // "input.0", "space.1"
  std::string message;  // names the file
};

struct Converted {
  std::vector<ConvertedFile> written;
  std::vector<LostTensor> lost;
  std::vector<std::string> notes;  // differences from the request, with reasons
};

// Names, with B the name of the file and `k` the slot: B.input.k.npy and B.output.k.npy (.pt),
// B.input.k.N.TYPE.FORMAT.bin; in another format B.input.k.2x3.npy, B.input.k.2_3.TYPE.FORMAT.bin. Buffers and spaces
// are B.l1buffer.k.bin and B.space.k.bin, overflow records B.output.k.json. A name of 255 bytes or more becomes a hash,
// listed in mapping.csv. The directory is made, files of these names are replaced. Values are exact: types that NumPy
// lacks are widened. Failed tensors do not prevent writing the others.
Converted convert_file(const std::filesystem::path& file, const std::filesystem::path& directory,
                       const ConvertSpec& spec = {});

}  // namespace sonde
