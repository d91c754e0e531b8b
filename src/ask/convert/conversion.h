// The implementation of convert_file: one file, its tensors one after the other, each with its own result.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/convert/convert.h"
#include "ask/convert/element_stream.h"
#include "ask/convert/thread_slices.h"
#include "dump/formats/cann_elements.h"
#include "dump/formats/container.h"
#include "ground/files/mapped_file.h"
#include "ground/tensor/reformat.h"

namespace sonde {

// The error that makes a tensor fail; thrown and caught inside Conversion.
struct Lost {
  ConvertFault fault;
  std::string message;
};

// One tensor in the form its file has it.
struct StoredTensor {
  bool is_input = false;
  std::uint32_t slot = 0;
  std::int32_t data_type = 0;
  CannElements elements;
  Format format = Format::nd;
  std::vector<std::int64_t> shape, original_shape;
  std::optional<Format> original_format;
  std::int64_t groups = 1;
  const std::byte* data = nullptr;
  std::int64_t count = 0;

  std::string what() const { return fmt::format("{}.{}", is_input ? "input" : "output", slot); }
};

// The form it is converted to.
struct ConvertTarget {
  std::vector<std::int64_t> shape;
  Format format = Format::nd;
  bool is_converted = false;  // a format was requested: the name contains the shape
  std::optional<Reformat> plan;
};

// Converts tensors of a file one by one: chooses their formats and names, and writes them. Throws Lost.
class TensorConversion {
 public:
  TensorConversion(const std::filesystem::path& file, const std::filesystem::path& directory, const ConvertSpec& spec,
                   Converted& done)
      : file_(file),
        directory_(directory),
        base_(file.filename()),
        name_(spec.name.empty() ? base_ : spec.name),
        spec_(spec),
        done_(done) {}

  // As the file has it, for MindSpore's names.
  void set_op_name(std::string op_name) { op_name_ = std::move(op_name); }
  void convert(const StoredTensor& tensor);
  ConvertTarget target(const StoredTensor& tensor);
  void write_elements(const std::string& name, const ElementStream& stream, const std::vector<std::int64_t>& shape);
  void write_bytes(const std::string& name, std::string_view suffix, std::string_view bytes);
  std::string_view suffix() const;  // of a file with a tensor

 private:
  void check_nz(const StoredTensor& tensor, const std::vector<std::int64_t>& wanted) const;
  std::optional<LogicalShape> real_shape(const StoredTensor& tensor);
  void convert_custom(const StoredTensor& tensor);
  void write(const StoredTensor& tensor, const ConvertTarget& target);
  std::string parameter(const StoredTensor& tensor, const ConvertTarget& target) const;
  void note(const std::string& what, const std::string& text) {
    done_.notes.push_back(fmt::format("'{}': {}: {}", file_.string(), what, text));
  }

  const std::filesystem::path& file_;
  const std::filesystem::path& directory_;
  const std::string base_, name_;
  const ConvertSpec& spec_;
  Converted& done_;
  std::string op_name_;
};

// One file.
class Conversion {
 public:
  Conversion(const std::filesystem::path& file, const std::filesystem::path& directory, const ConvertSpec& spec,
             Converted& done)
      : file_(file),
        base_(file.filename()),
        name_(spec.name.empty() ? base_ : spec.name),
        spec_(spec),
        done_(done),
        tensors_(file, directory, spec, done) {}

  void container();
  void npy();
  void raw();

 private:
  void side(const Container& container, bool is_input, const std::optional<ThreadSlices>& slices);
  void overflow(const Container& container);
  void extras(const Container& container);
  std::optional<ThreadSlices> slices_of(const Container& container);
  bool is_wanted(bool is_input, std::uint32_t slot) const;
  void check_slots(const Container& container);
  StoredTensor stored(const ContainerTensor& tensor, bool is_input, std::uint32_t slot,
                      const std::vector<std::int64_t>* slice) const;
  template <typename Body>
  void guarded(const std::string& what, const Body& body);
  void lose(ConvertFault fault, std::string what, const std::string& message);

  const std::filesystem::path& file_;
  const std::string base_, name_;
  const ConvertSpec& spec_;
  Converted& done_;
  TensorConversion tensors_;
  MappedFile mapped_;
};

std::string format_text(Format format);  // its name, else its number

}  // namespace sonde
