#include "ask/convert/element_stream.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "dump/formats/npy.h"
#include "ground/base/parallel.h"
#include "ground/files/files.h"

namespace sonde {
namespace {

// Elements that are made and handed to the kernel at a time: they stay in a second-level cache.
constexpr std::int64_t kPieceBytes = 512 << 10;

}  // namespace

Result<ElementStream> ElementStream::make(const std::byte* data, std::int32_t data_type, const CannElements& elements,
                                          std::int64_t count, std::optional<Reformat> plan) {
  ElementStream stream;
  stream.data_ = data;
  stream.data_type_ = data_type;
  stream.elements_ = elements;
  stream.count_ = plan ? plan->elements() : count;
  if (plan && !plan->is_reshape()) stream.plan_ = std::move(plan);
  if (!stream.plan_ || !elements.decoded) return stream;
  try {
    stream.decoded_.resize(static_cast<std::size_t>(count) * info(elements.dtype).item_bytes);
  } catch (const std::exception&) {  // length_error, bad_alloc
    return Error{ErrorCode::io, fmt::format("not enough memory for {} decoded elements", count)};
  }
  decode_cann(data_type, data, 0, static_cast<std::uint64_t>(count), stream.decoded_.data());
  stream.data_ = stream.decoded_.data();
  stream.elements_.decoded = false;
  return stream;
}

std::size_t ElementStream::item_bytes() const { return info(elements_.dtype).file_bytes; }

bool ElementStream::is_plain() const {
  return !plan_ && !elements_.decoded && !npy_needs_widening(elements_.dtype, false);
}

// Elements [first, last) of the result as the file has them.
void ElementStream::produce(std::int64_t first, std::int64_t last, std::vector<std::byte>& scratch,
                            std::byte* out) const {
  const auto count = static_cast<std::size_t>(last - first);
  const std::size_t item = info(elements_.dtype).item_bytes;
  if (elements_.decoded) {
    decode_cann(data_type_, data_, static_cast<std::uint64_t>(first), count, out);
    return;
  }
  const bool widens = npy_needs_widening(elements_.dtype, false);
  const std::byte* source = data_ + first * static_cast<std::int64_t>(item);
  if (plan_) {
    if (widens) scratch.resize(count * item);
    std::byte* target = widens ? scratch.data() : out;
    plan_->copy_part(data_, target, item, first, last);
    source = target;
  }
  if (widens) widen_for_npy(elements_.dtype, source, count, out);
}

int ElementStream::write_part(int fd, std::uint64_t offset, std::int64_t first, std::int64_t last,
                              std::uint32_t* crc) const {
  const auto item = static_cast<std::int64_t>(item_bytes());
  const auto place = [&](std::int64_t element) { return offset + static_cast<std::uint64_t>(element * item); };
  if (is_plain() && crc == nullptr) {
    return write_at(fd, place(first), data_ + first * item, static_cast<std::size_t>((last - first) * item));
  }
  const std::int64_t piece = std::max<std::int64_t>(1, kPieceBytes / item);
  std::vector<std::byte> out, scratch;
  if (!is_plain()) out.resize(static_cast<std::size_t>(std::min(piece, last - first) * item));
  for (std::int64_t at = first; at < last; at += piece) {
    const std::int64_t end = std::min(at + piece, last);
    const auto bytes = static_cast<std::size_t>((end - at) * item);
    if (!is_plain()) produce(at, end, scratch, out.data());
    const std::byte* made = is_plain() ? data_ + at * item : out.data();
    if (crc != nullptr) *crc = static_cast<std::uint32_t>(crc32_z(*crc, reinterpret_cast<const Bytef*>(made), bytes));
    if (const int error_number = write_at(fd, place(at), made, bytes); error_number != 0) return error_number;
  }
  return 0;
}

int ElementStream::write(int fd, std::uint64_t offset, std::size_t threads, std::uint32_t* crc) const {
  constexpr std::int64_t kShareBytes = 8 << 20;  // less is not worth a thread
  const std::int64_t share = kShareBytes / static_cast<std::int64_t>(item_bytes());
  const std::int64_t shares = (count_ + share - 1) / share;
  if (threads < 2 || shares < 2 || crc != nullptr) return write_part(fd, offset, 0, count_, crc);
  std::atomic<int> error_number = 0;
  Threads(threads).for_each(static_cast<std::size_t>(shares), [&](std::size_t i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * share;
    if (error_number != 0) return;
    if (const int failed = write_part(fd, offset, first, std::min(first + share, count_), nullptr); failed != 0) {
      error_number = failed;
    }
  });
  return error_number;
}

}  // namespace sonde
