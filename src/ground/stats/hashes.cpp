// MD5 and SHA-1 of a view's bytes in C order, without a copy of the whole.
#include "ground/stats/hashes.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ground/stats/statistics.h"
#include "ground/tensor/walk.h"

namespace sonde {
namespace {

constexpr std::size_t kHashPieceBytes = 64 << 10;
constexpr std::size_t kSliceElements = 20480;  // of SHA-1, as in MindSpore 2.7

// A running hash. OpenSSL may refuse an algorithm (FIPS); then the text is empty.
class Digest {
 public:
  explicit Digest(const EVP_MD* algorithm)
      : context_(EVP_MD_CTX_new()), algorithm_(algorithm), good_(context_ != nullptr) {
    restart();
  }

  void restart() { good_ = good_ && EVP_DigestInit_ex(context_.get(), algorithm_, nullptr) == 1; }

  void add(const void* data, std::size_t bytes) { good_ = good_ && EVP_DigestUpdate(context_.get(), data, bytes) == 1; }

  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    good_ = good_ && EVP_DigestFinal_ex(context_.get(), digest, &length) == 1;
    if (!good_) return {};
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (unsigned i = 0; i < length; ++i) {
      text += kDigits[digest[i] >> 4];
      text += kDigits[digest[i] & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
  const EVP_MD* algorithm_;
  bool good_;
};

// Hashed in the lanes of a vector, which are slower than OpenSSL unless there are several.
constexpr std::size_t kLeastSlices = 6;

bool lies_in_c_order(const TensorView& view) { return view.is_c_contiguous() && !view.negative && !view.conjugate; }

// Calls `use(data, bytes)` with the view's bytes in C order, `piece_elements` at a time.
template <typename Use>
void for_each_piece(const TensorView& view, std::size_t piece_elements, Use use) {
  auto left = static_cast<std::size_t>(view.elements());
  if (left == 0) return;
  const std::size_t item_bytes = info(view.dtype).item_bytes;
  if (lies_in_c_order(view)) {
    const std::byte* data = view.data;
    while (left > 0) {
      const std::size_t count = std::min(left, piece_elements);
      use(data, count * item_bytes);
      data += count * item_bytes;
      left -= count;
    }
    return;
  }
  std::vector<std::byte> buffer(std::min(left, piece_elements) * item_bytes);
  Cursor cursor(view);
  while (const std::size_t count = cursor.read(buffer.data(), piece_elements)) {
    resolve_bits(view, buffer.data(), count);
    use(buffer.data(), count * item_bytes);
  }
}

}  // namespace

namespace {

std::string hash_by_lanes(HashAlgorithm algorithm, std::span<HashMessage> messages) {
  MultiHash hash(algorithm);
  for (HashMessage& message : messages) hash.add(message);
  hash.run();
  return algorithm == HashAlgorithm::md5 ? hex_of(messages.front()) : sha1_of_slices(messages);
}

// Where OpenSSL refuses: these hashes distinguish tensors, they protect nothing.
std::string hash_of_copy(HashAlgorithm algorithm, const TensorView& view) {
  std::vector<std::byte> copy(view.bytes());
  if (!copy.empty()) copy_c_order(view, copy.data());
  std::vector<HashMessage> messages(1);
  messages.front().data = copy.data();
  messages.front().bytes = copy.size();
  if (algorithm == HashAlgorithm::sha1) {
    messages = sha1_slices(copy.data(), copy.size(), info(view.dtype).item_bytes);
  }
  return hash_by_lanes(algorithm, messages);
}

}  // namespace

std::string md5_hex(const TensorView& view) {
  Digest digest(EVP_md5());
  for_each_piece(view, kHashPieceBytes / 16,
                 [&](const std::byte* data, std::size_t bytes) { digest.add(data, bytes); });
  const std::string text = digest.hex();
  return text.empty() ? hash_of_copy(HashAlgorithm::md5, view) : text;
}

std::vector<HashMessage> sha1_slices(const std::byte* data, std::size_t bytes, std::size_t item_bytes) {
  const std::size_t slice_bytes = kSliceElements * item_bytes;
  std::vector<HashMessage> slices(std::max<std::size_t>(1, (bytes + slice_bytes - 1) / slice_bytes));
  for (HashMessage& slice : slices) {
    slice.data = data;
    slice.bytes = std::min(bytes, slice_bytes);
    data += slice.bytes;
    bytes -= slice.bytes;
  }
  return slices;
}

std::string sha1_of_slices(std::span<const HashMessage> slices) {
  if (slices.size() == 1) return hex_of(slices.front());
  std::string texts;
  for (const HashMessage& slice : slices) texts += hex_of(slice);
  HashMessage whole;
  whole.data = reinterpret_cast<const std::byte*>(texts.data());
  whole.bytes = texts.size();
  MultiHash hash(HashAlgorithm::sha1);
  hash.add(whole);
  hash.run();
  return hex_of(whole);
}

std::string sha1_hex(const TensorView& view) {
  const bool sliced = view.elements() > static_cast<std::int64_t>(kSliceElements);
  if (view.elements() > static_cast<std::int64_t>(kLeastSlices * kSliceElements) && lies_in_c_order(view)) {
    std::vector<HashMessage> slices = sha1_slices(view.data, view.bytes(), info(view.dtype).item_bytes);
    return hash_by_lanes(HashAlgorithm::sha1, slices);
  }
  Digest whole(EVP_sha1());
  Digest slice(EVP_sha1());
  for_each_piece(view, kSliceElements, [&](const std::byte* data, std::size_t bytes) {
    if (!sliced) return whole.add(data, bytes);
    slice.restart();
    slice.add(data, bytes);
    const std::string text = slice.hex();
    whole.add(text.data(), text.size());
  });
  const std::string text = whole.hex();
  return text.empty() ? hash_of_copy(HashAlgorithm::sha1, view) : text;
}

}  // namespace sonde
