// libFuzzer entry over what a request of the server may contain: its body, a job; its address, and in its query a filter, a
// slice and texts of a table. clang++ -fsanitize=fuzzer,address … fuzz/parse_request.cpp. ctest runs it over a small mutated corpus
// (tests/engine/server/request_fuzz_test.cpp).
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "face/server/answer_table.h"
#include "face/server/arrow.h"
#include "face/server/filter.h"
#include "face/server/jobs.h"
#include "face/server/message.h"
#include "read/measure/slice.h"

namespace {

void check_filter(const std::string& text) {
  const auto filter = sonde::server::Filter::parse(text, {"l2norm", "nan_count"});
  if (!filter) {
    if (filter.error().message.empty()) std::abort();
    return;
  }
  (void)filter->takes_name({"Default/network-Net/conv1-Conv2d/conv2d-op0", "conv2d", "Default/network-Net"});
  for (const auto& number : filter->numbers) (void)number.holds(1);
}

void check_slice(const std::string& text) {
  static const std::array<float, 24> kData{};
  const std::array<std::int64_t, 3> shape = {2, 3, 4}, strides = {12, 4, 1};
  sonde::TensorView whole;
  whole.dtype = sonde::DType::float32;
  whole.data = reinterpret_cast<const std::byte*>(kData.data());
  whole.shape = shape;
  whole.strides = strides;
  const auto slice = sonde::slice_of(whole, text);
  if (!slice) {
    if (slice.error().message.empty()) std::abort();
    return;
  }
  for (std::int64_t i = 0; i < slice->elements(); ++i) {
    const std::int64_t place = slice->place_of(i);
    if (place < 0 || place >= static_cast<std::int64_t>(kData.size())) std::abort();  // outside the tensor
  }
}

// Each message of the stream begins with a mark and the size of its head, at a multiple of eight.
void check_arrow(const sonde::server::Fields& query) {
  using sonde::server::ColumnType;
  sonde::server::AnswerTable table;
  auto& names = table.add("name", ColumnType::text);
  auto& values = table.add("value", ColumnType::unique, true);
  auto& sizes = table.add("size", ColumnType::uint32);
  for (const auto& [name, value] : query) {
    names.add(name);
    value.empty() ? values.add_null() : values.add(value);
    sizes.add_number(value.size());
  }
  const std::string stream = sonde::server::arrow_stream(table.columns);
  if (stream.size() < 16 || stream.size() % 8 != 0) std::abort();
  if (std::memcmp(stream.data(), "\xff\xff\xff\xff", 4) != 0) std::abort();
  if (stream.compare(stream.size() - 8, 8, std::string_view("\xff\xff\xff\xff\0\0\0\0", 8)) != 0) std::abort();
}

// The answer of a job contains its arguments.
void check_job(const std::string& text) {
  const auto request = sonde::server::job_request(text);
  if (!request) {
    if (request.error().message.empty()) std::abort();
    return;
  }
  const sonde::Json arguments = sonde::Json::parse(request->arguments.text);
  if (sonde::json_of(*request).value("arguments", sonde::Json()) != arguments) std::abort();
  const auto command = sonde::server::job_command(request->kind, arguments, {"/a", "/b"});
  if (!command && command.error().message.empty()) std::abort();
  if (command && command->size() < 2) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_job(text);
  sonde::server::Request request;
  if (const sonde::Status good = sonde::server::parse_target(text, request); !good) {
    if (good.error().message.empty()) std::abort();
    return 0;
  }
  if (!request.path.starts_with('/') || request.path.find("..") != std::string::npos) std::abort();
  if (request.path.find('\0') != std::string::npos) std::abort();
  for (const auto& [name, value] : request.query) {
    if (name == "slice") {
      check_slice(value);
    } else {
      check_filter(value);
    }
  }
  check_arrow(request.query);
  return 0;
}
