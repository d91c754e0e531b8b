#include "dump/formats/atb_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dump/formats/limits.h"
#include "ground/base/parse_number.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

constexpr std::size_t kLongestAtbHeader = 1 << 16;

struct AclType {
  int number;
  DType dtype;
};
// ACL's numbers, which differ from those of CANN's containers.
constexpr std::array kAclTypes = {
    AclType{0, DType::float32},    AclType{1, DType::float16},     AclType{2, DType::int8},
    AclType{3, DType::int32},      AclType{4, DType::uint8},       AclType{6, DType::int16},
    AclType{7, DType::uint16},     AclType{8, DType::uint32},      AclType{9, DType::int64},
    AclType{10, DType::uint64},    AclType{11, DType::float64},    AclType{12, DType::bool8},
    AclType{16, DType::complex64}, AclType{17, DType::complex128}, AclType{27, DType::bfloat16},
};

// "2,3"; empty: a scalar.
bool parse_sizes(std::string_view text, std::vector<std::int64_t>& out) {
  out.clear();
  for (const std::string_view part : split(text, ',')) {
    std::int64_t size = 0;
    if (out.size() == kMostDimensions || !parse_number(part, size) || size < 0) return false;
    out.push_back(size);
  }
  return true;
}

Status take_pair(std::string_view key, std::string_view value, AtbHeader& header) {
  if (key == "dtype") {
    int number = 0;
    const bool is_number = parse_number(value, number);
    const auto found = std::ranges::find(kAclTypes, number, &AclType::number);
    if (!is_number || found == kAclTypes.end()) {
      return Error{ErrorCode::unsupported, fmt::format("elements of ACL's type '{}' are not known", value)};
    }
    header.dtype = found->dtype;
  } else if (key == "dims") {
    if (!parse_sizes(value, header.shape)) return corrupt(fmt::format("dims '{}' are not sizes", value));
  } else if (key == "data") {
    header.data = value;
  }
  return {};
}

}  // namespace

bool is_atb(std::string_view start) { return start.starts_with("$Version="); }

Result<AtbHeader> parse_atb(std::string_view file) {
  const std::string_view head = file.substr(0, kLongestAtbHeader);
  AtbHeader header;
  std::size_t at = 0;
  for (std::size_t number = 1;; ++number) {
    const std::size_t end = head.find('\n', at);
    if (end == std::string_view::npos) return corrupt(fmt::format("the header has no $End up to byte {}", head.size()));
    const std::string_view line = head.substr(at, end - at);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return corrupt(fmt::format("line {} of the header is not 'key=value'", number));
    }
    at = end + 1;
    const std::string_view key = line.substr(0, equals);
    if (key == "$End") break;
    if (Status taken = take_pair(key, line.substr(equals + 1), header); !taken) return taken.error();
  }
  if (header.dtype == DType::undefined) return corrupt("the header does not say dtype");
  header.data_offset = at;
  return header;
}

}  // namespace sonde
