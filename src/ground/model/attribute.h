// Attribute: an argument of an op that is not a tensor, by its name in the op's schema: `stride = [1, 1]`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {

// Numbers are part of the journal and of the C ABI (SONDE_ATTRIBUTE_*).
enum class AttributeKind : std::uint8_t {
  none = 0,  // given as None, or left out
  boolean = 1,
  integer = 2,
  real = 3,
  text = 4,  // types, layouts, devices and other things with a name: `float32`
  booleans = 5,
  integers = 6,
  reals = 7,
};

struct Attribute {
  std::string name;
  AttributeKind kind = AttributeKind::none;
  std::vector<std::int64_t> integers;  // one for boolean and integer; all of a list
  std::vector<double> reals;           // one for real; all of a list
  std::string text;
  friend bool operator==(const Attribute&, const Attribute&) = default;
};

// Not an argument: of a node of a compiled graph, the kernels that compute it, by their names in the compiled code.
inline constexpr std::string_view kFusedKernel = "fused_kernel";

// The argument of an op with two inputs that is a number of the program: `mul.Scalar`, and compiled code where other code
// wraps it as a tensor.
inline constexpr std::string_view kOtherNumber = "other";

// Attributes of one call. Stored once for all ops that have the same.
struct Attributes {
  std::uint32_t id = 0;  // from 1; 0 means "none"
  std::vector<Attribute> values;
};

// Numbers in calls may be new each time (a learning rate that decays). Only this many recent ones are remembered; a
// call equal to an older one gets a new id, and its attributes are reported again.
inline constexpr std::uint32_t kMostAttributesKnown = 1 << 16;

// "1", "true", "0.5", "[1, 1]", "None", "float32".
std::string text_of(const Attribute& attribute);
// The same for people alone: PyTorch's number for the reduction of a loss is "mean" or "sum".
std::string words_of(const Attribute& attribute);
// The same in the notation of MindSpore's `.ir`: I64(1), Bool(1), F64(0.5), [I64(1), I64(1)], "float32", None.
std::string ir_text_of(const Attribute& attribute);

}  // namespace sonde
