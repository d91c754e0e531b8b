// The arguments of the statistics kernel, and its results. The host includes this file; NVRTC and hiprtc get its text
// with that of statistics.cu, so it includes nothing and uses no type of a library.
#pragma once

namespace sonde::device {

inline constexpr unsigned int kBlockElements = 8192;  // kBlock of stats/moments.h: each has a thread block and a record
inline constexpr unsigned int kThreads = 64;          // of a thread block

inline constexpr char kKernelName[] = "sonde_statistics";

// The element types that the kernel distinguishes.
enum class Element : unsigned char {
  bool8,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64,
  bfloat16,
  float8_e4m3fn,
  float8_e5m2,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
  float8_e8m0fnu,
};

// A dimension of a walk (tensor/walk.h).
struct Dimension {
  long long size;
  long long stride;  // elements
};

// A tensor in the memory of the device.
struct Source {
  const void* data;  // first element of the walk
  long long elements;
  unsigned int first_block;        // its first block among those of the launch
  unsigned short first_dimension;  // in Batch::dimensions
  unsigned char rank;              // 0: the elements lie side by side
  Element element;
};

// The tensors of one launch, passed by value: the parameters of a kernel have 4096 bytes.
struct Batch {
  static constexpr unsigned int kMostSources = 128;
  static constexpr unsigned int kMostDimensions = 56;

  Source sources[kMostSources];  // none is empty
  Dimension dimensions[kMostDimensions];
  unsigned int count;  // sources
};

// The statistics of a block: what the same block gives on a CPU, bit for bit.
struct Record {
  double sum;  // of finite elements
  double squares;
  double max;  // over finite elements; -inf and +inf if there is none
  double min;
  unsigned short nan;
  unsigned short positive_inf;
  unsigned short negative_inf;
  unsigned short positive;  // infinities included
  unsigned short negative;
  unsigned short unused[3];
};

static_assert(sizeof(Source) == 24 && sizeof(Record) == 48, "the host and the device have the same layout");
static_assert(sizeof(Batch) + sizeof(Record*) <= 4096, "all parameters fit");

}  // namespace sonde::device
