#include "record/writer/tensor_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "dump/formats/npy.h"
#include "ground/base/shape.h"
#include "ground/files/packed_path.h"
#include "ground/files/safe_path.h"
#include "ground/files/write_method.h"
#include "record/writer/container_file.h"
#include "record/writer/fingerprint.h"
#include "record/writer/lru_table.h"
#include "record/writer/packs.h"

namespace sonde {
namespace {

constexpr std::size_t kWidenElements = 16 << 10;  // per piece: stays in cache

// The first file with certain bytes; links point to it.
struct Primary {
  std::string path;  // relative to the rank directory; in a pack: the prefix of its path
  DType dtype = DType::undefined;
};

// A tensor that equals another one whose bytes have not arrived yet.
struct Waiting {
  NamedRecord record;
  RecordedTensor tensor;
  bool old = false;  // a step has ended since
};

// The tensors with one sample.
struct Sampled {
  std::shared_ptr<Primary> first;  // its fingerprint is not known; null: it is known, as that of all later ones
};

}  // namespace

struct TensorWriter::State {
  State(const Layout& naming, TensorWriterOptions chosen)
      : layout(naming),
        options(chosen),
        contents(chosen.remembered_contents),
        fingerprints(chosen.remembered_fingerprints),
        samples(chosen.remembered_fingerprints),
        packs(naming) {}

  Layout layout;
  TensorWriterOptions options;
  Fd rank, aside;
  std::optional<Places> places;
  LruTable<std::uint64_t, std::string> containers{1 << 12};  // of records that others may repeat, by sequence
  LruTable<std::uint64_t, std::shared_ptr<Primary>> contents;
  LruTable<Fingerprint, std::shared_ptr<Primary>, FingerprintHash> fingerprints;
  LruTable<Fingerprint, Sampled, FingerprintHash> samples;
  Packs packs;
  std::unordered_multimap<std::uint64_t, Waiting> waiting;  // by content
  std::vector<std::byte> scratch;
  WriteMethod method;
  bool can_link = true;
  std::uint64_t bytes_written = 0, files = 0, lost = 0;

  int place(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor, std::string& path,
            const Places::Put& put);
  int write_as_is(AsideFile& file, std::string_view header, const Block& block, bool crowded);
  bool widens(DType dtype) const {
    return layout.tensor_form() == TensorForm::npy && npy_needs_widening(dtype, options.raw_bfloat16);
  }
  int write_bytes(AsideFile& file, std::string_view header, const TensorRecord& tensor);
  int repeat_container(const std::string& first, int directory, const char* name);
  int copy_file(const std::string& from, AsideFile& file);
  int write_primary(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor, std::string_view header,
                    std::string& path);
  int link_or_copy(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor, Primary& primary,
                   std::string& path);
  Status link_known(const NamedRecord& record, RecordedTensor& tensor, Primary& known, std::vector<StoredFile>& stored);
  Status store_one(const NamedRecord& record, TensorRecord& tensor, std::vector<StoredFile>& stored);
  bool is_large(const TensorRecord& tensor) const {
    return tensor.bytes->bytes >= kSampledBytes && !widens(tensor.dtype);
  }
  std::optional<Fingerprint> read_back(const Primary& primary, std::string_view header, std::size_t bytes);
  Status store_bytes(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor, std::string& path,
                     std::vector<StoredFile>& stored);
  Result<PackFile*> pack_of(const OpenDirectory& step, StepId id, std::size_t bytes, std::vector<StoredFile>& stored) {
    return packs.open(step, id, bytes, *places, method, stored);
  }
  int put_in_pack(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor, std::string_view header,
                  std::string& path, std::string& prefix);
  int link_in_pack(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor, const Primary& primary,
                   std::string& path);
  void enter(std::string path, const OpenDirectory& step, std::uint64_t sequence, const RecordedTensor& tensor,
             std::vector<StoredFile>& stored);
  Status store_container(Record& record, std::vector<StoredFile>& stored);
  Status pack_container(OpenDirectory& step, Record& record, const std::string* first, std::vector<StoredFile>& stored);
  Status release_waiting(std::uint64_t content, std::vector<StoredFile>& stored);
};

// The name is taken, so the tensor's time is advanced.
int TensorWriter::State::place(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor,
                               std::string& path, const Places::Put& put) {
  const auto name = [&](int attempt) {
    if (attempt > 0) ++tensor.timestamp_us;
    return layout.names().tensor_file_name(*record.op, tensor, layout.names().shown_task(record), attempt);
  };
  return places->place(step, name, put, path);
}

int TensorWriter::State::write_as_is(AsideFile& file, std::string_view header, const Block& block, bool crowded) {
  bytes_written += block.bytes;
  const bool either = block.page != nullptr && header.size() == kHeadroom && block.bytes >= WriteMethod::kLeastBytes;
  const WriteMethod::Kind kind = either ? method.next(!crowded) : WriteMethod::cached;
  const auto begin = std::chrono::steady_clock::now();
  int error_number = EINVAL;
  if (kind == WriteMethod::direct) {
    std::ranges::copy(header, reinterpret_cast<char*>(block.page));
    error_number = file.write_direct(block.page, kHeadroom + block.bytes);
    if (error_number == EINVAL) method.no_direct();
  }
  if (error_number == EINVAL) error_number = file.write(header, block.data, block.bytes);
  if (either && error_number == 0) {
    const auto taken = std::chrono::steady_clock::now() - begin;
    method.took(kind, block.bytes, static_cast<std::uint64_t>(std::chrono::nanoseconds(taken).count()));
  }
  return error_number;
}

int TensorWriter::State::write_bytes(AsideFile& file, std::string_view header, const TensorRecord& tensor) {
  const Block& block = *tensor.bytes;
  if (!widens(tensor.dtype)) {
    return write_as_is(file, header, block, tensor.bytes.get_deleter().pool->is_crowded());
  }
  const DTypeInfo& type = info(tensor.dtype);
  const std::uint64_t count = element_count(tensor.shape.values());
  scratch.resize(kWidenElements * type.file_bytes);
  for (std::uint64_t i = 0; i < count; i += kWidenElements) {
    const std::size_t piece = std::min<std::uint64_t>(kWidenElements, count - i);
    widen_for_npy(tensor.dtype, block.data + i * type.item_bytes, piece, scratch.data());
    const int error_number = file.write(i == 0 ? header : std::string_view(), scratch.data(), piece * type.file_bytes);
    if (error_number != 0) return error_number;
    bytes_written += piece * type.file_bytes;
  }
  return 0;
}

int TensorWriter::State::copy_file(const std::string& from, AsideFile& file) {
  const Fd in(::openat(rank.get(), from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!in) return errno;
  struct stat status {};
  if (::fstat(in.get(), &status) != 0 || !S_ISREG(status.st_mode)) return ENOENT;  // the user has replaced it
  scratch.resize(kWidenElements * sizeof(float));
  while (true) {
    const ssize_t got = ::read(in.get(), scratch.data(), scratch.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    const int error_number = file.write({}, scratch.data(), static_cast<std::size_t>(got));
    if (error_number != 0) return error_number;
    bytes_written += static_cast<std::uint64_t>(got);
  }
}

int TensorWriter::State::write_primary(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor,
                                       std::string_view header, std::string& path) {
  AsideFile file(aside.get());
  int error_number = file.create();
  if (error_number == 0) error_number = write_bytes(file, header, tensor);
  if (error_number != 0) return error_number;
  return place(step, record, tensor, path,
               [&](int directory, const char* name) { return file.commit(directory, name, false); });
}

// A new name for the file of `primary`. If the file system allows no more links to it, or no links at all, a copy,
// which becomes the primary.
int TensorWriter::State::link_or_copy(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor,
                                      Primary& primary, std::string& path) {
  int error_number = EPERM;
  const auto make_link = options.link != nullptr ? options.link : &::linkat;
  if (can_link) {
    error_number = place(step, record, tensor, path, [&](int directory, const char* name) {
      return make_link(rank.get(), primary.path.c_str(), directory, name, 0) == 0 ? 0 : errno;
    });
    if (error_number == 0) return 0;
  }
  constexpr int kNoLinksHere[] = {EPERM, EXDEV, ENOSYS, EOPNOTSUPP};
  const bool none = std::ranges::find(kNoLinksHere, error_number) != std::end(kNoLinksHere);
  if (none) can_link = false;
  if (!none && error_number != EMLINK) return error_number;
  AsideFile file(aside.get());
  error_number = file.create();
  if (error_number == 0) error_number = copy_file(primary.path, file);
  if (error_number != 0) return error_number;
  error_number = place(step, record, tensor, path,
                       [&](int directory, const char* name) { return file.commit(directory, name, false); });
  if (error_number == 0) primary.path = path;
  return error_number;
}

// The fingerprint of a large tensor from its file. Nullopt if the file is not as it was written.
std::optional<Fingerprint> TensorWriter::State::read_back(const Primary& primary, std::string_view header,
                                                          std::size_t bytes) {
  std::uint64_t offset = 0;
  std::string file = primary.path;
  if (options.pack) {
    const std::string path = primary.path + "x";
    const std::optional<PackedPath> packed = packed_path(path);
    if (!packed) return std::nullopt;
    offset = packed->offset;
    file = packed->pack;
  }
  const Fd in(::openat(rank.get(), file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!in || ::fstat(in.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (!options.pack && size != header.size() + bytes) return std::nullopt;
  scratch.resize(1 << 20);
  offset += header.size();
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), &XXH3_freeState);
  if (!hash || XXH3_128bits_reset(hash.get()) != XXH_OK) return std::nullopt;
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t piece = std::min(left, scratch.size());
    if (!read_at(in.get(), offset, scratch.data(), piece)) return std::nullopt;
    XXH3_128bits_update(hash.get(), scratch.data(), piece);
    offset += piece;
    left -= piece;
  }
  return fingerprint(header, XXH3_128bits_digest(hash.get()));
}

Status TensorWriter::State::store_bytes(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor,
                                        std::string& path, std::vector<StoredFile>& stored) {
  const bool is_npy = layout.tensor_form() == TensorForm::npy;
  const std::string header =
      is_npy ? npy_header(tensor.dtype, tensor.shape.values(), options.raw_bfloat16) : std::string();
  const bool whole = tensor.bytes->bytes == element_count(tensor.shape.values()) * info(tensor.dtype).item_bytes;
  if ((is_npy && header.empty()) || !whole) {
    ++lost;
    return {};
  }
  const std::size_t bytes = tensor.bytes->bytes;
  const bool large = is_large(tensor);
  const Fingerprint part = large ? sample(header, *tensor.bytes) : Fingerprint();
  Sampled* const seen = large ? samples.find(part) : nullptr;
  if (seen != nullptr && seen->first != nullptr) {  // the first tensor like this one: now all its bytes count
    if (Status flushed = packs.flush(method, stored); !flushed) return flushed.error();
    if (const auto of_first = read_back(*seen->first, header, bytes)) fingerprints.put(*of_first, seen->first);
    seen->first = nullptr;
  }
  const bool is_first_like_this = large && seen == nullptr;
  const Fingerprint key = is_first_like_this ? part : fingerprint(header, *tensor.bytes);
  std::shared_ptr<Primary> primary;
  int error_number = ENOENT;
  if (std::shared_ptr<Primary>* known = is_first_like_this ? nullptr : fingerprints.find(key)) {
    primary = *known;
    error_number = options.pack ? link_in_pack(step, record, tensor, *primary, path)
                                : link_or_copy(step, record, tensor, *primary, path);
  }
  if (error_number == ENOENT) {  // new, or removed by the user
    std::string place;
    error_number = options.pack ? put_in_pack(step, record, tensor, header, path, place)
                                : write_primary(step, record, tensor, header, path);
    if (error_number != 0) return places->error("write a tensor in", step, error_number);
    primary = std::make_shared<Primary>(Primary{options.pack ? place : path, tensor.dtype});
    if (is_first_like_this) {
      samples.put(part, {primary});
    } else {
      fingerprints.put(key, primary);
    }
  }
  if (error_number != 0) return places->error("link a tensor in", step, error_number);
  // Equal files may contain different types (quint8, uint8): later tensors look for their own type.
  if (primary->dtype != tensor.dtype) {
    primary = std::make_shared<Primary>(Primary{options.pack ? primary->path : path, tensor.dtype});
  }
  if (tensor.content != 0) contents.put(tensor.content, std::move(primary));
  return {};
}

// --- packs -----------------------------------------------------------------------------------------------------------

int TensorWriter::State::put_in_pack(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor,
                                     std::string_view header, std::string& path, std::string& prefix) {
  PackFile& pack = packs.in(step);
  std::string own;
  const int error_number =
      place(step, record, tensor, own, [&](int, const char* name) { return pack.take_name(name) ? 0 : EEXIST; });
  if (error_number != 0) return error_number;
  const std::size_t bytes = tensor.bytes->bytes;
  bytes_written += bytes;
  if (widens(tensor.dtype)) {
    const DTypeInfo& type = info(tensor.dtype);
    const std::size_t count = bytes / type.item_bytes;
    bytes_written += count * type.file_bytes - bytes;
    prefix = pack.add(own, header.size() + count * type.file_bytes, [&](std::byte* out) {
      std::ranges::copy(header, reinterpret_cast<char*>(out));
      widen_for_npy(tensor.dtype, tensor.bytes->data, count, out + header.size());
    });
  } else {
    prefix = pack.add(own, header, std::move(tensor.bytes));
  }
  path = prefix + own;
  return prefix.empty() ? ENOMEM : 0;
}

int TensorWriter::State::link_in_pack(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor,
                                      const Primary& primary, std::string& path) {
  PackFile& pack = packs.in(step);
  std::string own;
  const int error_number =
      place(step, record, tensor, own, [&](int, const char* name) { return pack.take_name(name) ? 0 : EEXIST; });
  if (error_number != 0) return error_number;
  path = primary.path + own;
  pack.add_link(path);
  return 0;
}

// A pack's tensors are on the disk only when the pack is flushed.
void TensorWriter::State::enter(std::string path, const OpenDirectory& step, std::uint64_t sequence,
                                const RecordedTensor& tensor, std::vector<StoredFile>& stored) {
  ++files;
  StoredFile file{sequence, tensor.is_input, tensor.slot, std::move(path)};
  if (options.pack) {
    packs.in(step).expect(std::move(file));
  } else {
    stored.push_back(std::move(file));
  }
}

Status TensorWriter::State::store_one(const NamedRecord& record, TensorRecord& tensor,
                                      std::vector<StoredFile>& stored) {
  const bool has_file = record.op != nullptr && tensor.wanted && tensor.skipped == nullptr &&
                        (tensor.bytes || tensor.content != 0) && element_count(tensor.shape) != 0;
  if (!has_file) {
    tensor.bytes.reset();
    return {};
  }
  if (!tensor.bytes) {
    if (std::shared_ptr<Primary>* known = contents.find(tensor.content)) {
      return link_known(record, tensor, **known, stored);
    }
    waiting.emplace(tensor.content, Waiting{record, tensor});
    return {};
  }
  Result<OpenDirectory*> step = places->of(record);
  if (!step) return step.error();
  if (options.pack) {
    const auto pack = pack_of(**step, record.step, tensor.bytes->bytes + kHeadroom, stored);
    if (!pack) return pack.error();
  }
  std::string path;
  if (Status status = store_bytes(**step, record, tensor, path, stored); !status) return status;
  tensor.bytes.reset();
  if (path.empty()) return {};
  enter(std::move(path), **step, record.sequence, tensor, stored);
  return release_waiting(tensor.content, stored);
}

Status TensorWriter::State::link_known(const NamedRecord& record, RecordedTensor& tensor, Primary& known,
                                       std::vector<StoredFile>& stored) {
  Result<OpenDirectory*> step = places->of(record);
  if (!step) return step.error();
  if (options.pack) {
    if (const auto pack = pack_of(**step, record.step, 0, stored); !pack) return pack.error();
  }
  std::string path;
  int error_number = ENOENT;
  if (known.dtype == tensor.dtype) {
    error_number = options.pack ? link_in_pack(**step, record, tensor, known, path)
                                : link_or_copy(**step, record, tensor, known, path);
  }
  if (error_number == ENOENT) {
    ++lost;
    return {};
  }
  if (error_number != 0) return places->error("link a tensor in", **step, error_number);
  enter(std::move(path), **step, record.sequence, tensor, stored);
  return {};
}

Status TensorWriter::State::release_waiting(std::uint64_t content, std::vector<StoredFile>& stored) {
  if (waiting.empty() || content == 0) return {};
  const auto [first, last] = waiting.equal_range(content);
  std::vector<Waiting> ready;
  for (auto at = first; at != last; ++at) ready.push_back(std::move(at->second));
  waiting.erase(first, last);
  for (Waiting& one : ready) {
    std::shared_ptr<Primary>* known = contents.find(content);
    if (known == nullptr) {
      ++lost;
    } else if (Status status = link_known(one.record, one.tensor, **known, stored); !status) {
      return status;
    }
  }
  return {};
}

// For unchanged content in watcher mode: another name for the container with the same bytes, or a copy of it.
int TensorWriter::State::repeat_container(const std::string& first, int directory, const char* name) {
  const auto make_link = options.link != nullptr ? options.link : &::linkat;
  if (make_link(rank.get(), first.c_str(), directory, name, 0) == 0) return 0;
  if (errno == EEXIST || errno == ENAMETOOLONG || errno == ENOSPC) return errno;
  AsideFile file(aside.get());
  int error_number = file.create();
  if (error_number == 0) error_number = copy_file(first, file);
  return error_number != 0 ? error_number : file.commit(directory, name, false);
}

// The same in a pack. `first`: the prefix of the container that it repeats, or null.
Status TensorWriter::State::pack_container(OpenDirectory& step, Record& record, const std::string* first,
                                           std::vector<StoredFile>& stored) {
  const std::string head = first == nullptr ? container_head(container_of(record)) : std::string();
  std::size_t bytes = head.size();
  for (const TensorRecord& tensor : record.tensors) bytes += tensor.wanted && tensor.bytes ? tensor.bytes->bytes : 0;
  const Result<PackFile*> pack = pack_of(step, record.step, bytes, stored);
  if (!pack) return pack.error();
  const std::uint64_t time = record.timestamp_us;
  std::uint64_t taken = 0;
  const auto name = [&](int attempt) {
    taken = static_cast<std::uint64_t>(attempt);
    return layout.names().op_file_name(*record.op, task_number(record), time + taken);
  };
  std::string own;
  const int error_number = places->place(
      step, name, [&](int, const char* free) { return (*pack)->take_name(free) ? 0 : EEXIST; }, own);
  if (error_number != 0) return places->error("write the tensors of an op in", step, error_number);
  std::string prefix =
      first != nullptr ? *first : (*pack)->add(own, bytes, [&](std::byte* out) { put_container(record, head, out); });
  if (prefix.empty()) return places->error("write the tensors of an op in", step, ENOMEM);
  if (first != nullptr) (*pack)->add_link(prefix + own);
  if (first == nullptr) bytes_written += bytes - head.size();
  ++files;
  for (TensorRecord& tensor : record.tensors) {
    tensor.timestamp_us = time + taken;
    if (!tensor.wanted || (!tensor.bytes && first == nullptr)) continue;
    tensor.bytes.reset();
    (*pack)->expect({record.sequence, tensor.is_input, tensor.slot, prefix + own});
  }
  if (first == nullptr && record.kind == RecordKind::parameter) containers.put(record.sequence, prefix);
  return {};
}

// Writes all tensors of the record in one file. It includes known bytes, which were read again.
Status TensorWriter::State::store_container(Record& record, std::vector<StoredFile>& stored) {
  const bool repeats = record.repeats != kNoSequence;
  if (!repeats && !has_container(record)) return {};
  const std::string* first = repeats ? containers.find(record.repeats) : nullptr;
  if (repeats && first == nullptr) {
    ++lost;
    return {};
  }
  Result<OpenDirectory*> step = places->of(record);
  if (!step) return step.error();
  if (options.pack) return pack_container(**step, record, first, stored);
  AsideFile file(aside.get());
  int error_number = repeats ? 0 : file.create();
  if (error_number == 0 && !repeats) error_number = write_container(record, file, bytes_written);
  std::string path;
  const std::uint64_t time = record.timestamp_us;
  int taken = 0;
  const auto name = [&](int attempt) {
    taken = attempt;
    return layout.names().op_file_name(*record.op, task_number(record), time + static_cast<std::uint64_t>(attempt));
  };
  const auto put = [&](int directory, const char* free) {
    return repeats ? repeat_container(*first, directory, free) : file.commit(directory, free, false);
  };
  if (error_number == 0) error_number = places->place(**step, name, put, path);
  if (error_number != 0) return places->error("write the tensors of an op in", **step, error_number);
  ++files;
  for (TensorRecord& tensor : record.tensors) {
    tensor.timestamp_us = time + static_cast<std::uint64_t>(taken);
    if (!tensor.wanted || (!tensor.bytes && !repeats)) continue;
    tensor.bytes.reset();
    stored.push_back({record.sequence, tensor.is_input, tensor.slot, path});
  }
  if (!repeats && record.kind == RecordKind::parameter) containers.put(record.sequence, path);
  return {};
}

TensorWriter::TensorWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorWriter::TensorWriter(TensorWriter&&) noexcept = default;
TensorWriter& TensorWriter::operator=(TensorWriter&&) noexcept = default;
TensorWriter::~TensorWriter() = default;

Result<TensorWriter> TensorWriter::open(const Layout& layout, const std::filesystem::path& aside,
                                        TensorWriterOptions options) {
  auto state = std::make_unique<State>(layout, options);
  Result<Fd> rank = open_in_dump(layout.root(), layout.rank_directory(), Missing::leave);
  if (!rank) return rank.error();
  Result<Fd> aside_directory = open_in_dump(layout.root(), aside, Missing::leave);
  if (!aside_directory) return aside_directory.error();
  state->rank = std::move(*rank);
  state->places.emplace(layout, state->rank.get());
  state->aside = std::move(*aside_directory);
  return TensorWriter(std::move(state));
}

Status TensorWriter::store(Record& record, std::vector<StoredFile>& stored) {
  if (record.op == nullptr) return {};
  if (state_->layout.tensor_form() == TensorForm::container) return state_->store_container(record, stored);
  for (TensorRecord& tensor : record.tensors) {
    if (Status status = state_->store_one(record, tensor, stored); !status) return status;
  }
  return {};
}

Status TensorWriter::flush(std::vector<StoredFile>& stored) { return state_->packs.flush(state_->method, stored); }

void TensorWriter::close_step(StepId step) {
  state_->packs.close_step(step);
  state_->places->close_step(step);
  state_->lost += std::erase_if(state_->waiting, [](const auto& entry) { return entry.second.old; });
  for (auto& entry : state_->waiting) entry.second.old = true;
}

Places& TensorWriter::places() { return *state_->places; }
std::uint64_t TensorWriter::bytes_written() const { return state_->bytes_written; }
std::uint64_t TensorWriter::files() const { return state_->files; }
std::uint64_t TensorWriter::lost() const { return state_->lost; }

}  // namespace sonde
