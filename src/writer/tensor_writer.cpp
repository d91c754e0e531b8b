#include "writer/tensor_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "base/shape.h"
#include "files/safe_path.h"
#include "files/write_method.h"
#include "formats/npy.h"
#include "writer/container_file.h"
#include "writer/lru_table.h"

namespace sonde {
namespace {

constexpr std::size_t kWidenElements = 16 << 10;  // per piece: stays in cache

// The first file with certain bytes; links point to it.
struct Primary {
  std::string path;  // relative to the rank directory
  DType dtype = DType::undefined;
};

struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
struct FingerprintHash {
  std::size_t operator()(const Fingerprint& key) const { return key.low; }
};

// A tensor that equals another one whose bytes have not arrived yet.
struct Waiting {
  NamedRecord record;
  RecordedTensor tensor;
  bool old = false;  // a step has ended since
};

Fingerprint fingerprint(std::string_view header, const Block& block) {
  const XXH128_hash_t data = XXH3_128bits(block.data, block.bytes);
  return {data.low64 ^ XXH3_64bits(header.data(), header.size()), data.high64};
}

}  // namespace

struct TensorWriter::State {
  State(const Layout& naming, TensorWriterOptions chosen)
      : layout(naming),
        options(chosen),
        contents(chosen.remembered_contents),
        fingerprints(chosen.remembered_fingerprints) {}

  Layout layout;
  TensorWriterOptions options;
  Fd rank, aside;
  std::optional<Places> places;
  LruTable<std::uint64_t, std::string> containers{1 << 12};  // of records that others may repeat, by sequence
  LruTable<std::uint64_t, std::shared_ptr<Primary>> contents;
  LruTable<Fingerprint, std::shared_ptr<Primary>, FingerprintHash> fingerprints;
  std::unordered_multimap<std::uint64_t, Waiting> waiting;  // by content
  std::vector<std::byte> scratch;
  WriteMethod method;
  bool can_link = true;
  std::uint64_t bytes_written = 0, files = 0, lost = 0;

  int place(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor, std::string& path,
            const Places::Put& put);
  int write_as_is(AsideFile& file, std::string_view header, const Block& block);
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
  Status store_bytes(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor, std::string& path);
  Status store_container(Record& record, std::vector<StoredFile>& stored);
  Status release_waiting(std::uint64_t content, std::vector<StoredFile>& stored);
};

// The name is taken, so the tensor's time is advanced.
int TensorWriter::State::place(OpenDirectory& step, const NamedRecord& record, RecordedTensor& tensor,
                               std::string& path, const Places::Put& put) {
  const auto name = [&](int attempt) {
    if (attempt > 0) ++tensor.timestamp_us;
    return layout.tensor_file_name(*record.op, tensor, layout.shown_task(record), attempt);
  };
  return places->place(step, name, put, path);
}

int TensorWriter::State::write_as_is(AsideFile& file, std::string_view header, const Block& block) {
  bytes_written += block.bytes;
  const bool either = block.page != nullptr && header.size() == kHeadroom && block.bytes >= WriteMethod::kLeastBytes;
  const WriteMethod::Kind kind = either ? method.next() : WriteMethod::cached;
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
  if (!widens(tensor.dtype)) return write_as_is(file, header, block);
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

Status TensorWriter::State::store_bytes(OpenDirectory& step, const NamedRecord& record, TensorRecord& tensor,
                                        std::string& path) {
  const bool is_npy = layout.tensor_form() == TensorForm::npy;
  const std::string header =
      is_npy ? npy_header(tensor.dtype, tensor.shape.values(), options.raw_bfloat16) : std::string();
  const bool whole = tensor.bytes->bytes == element_count(tensor.shape.values()) * info(tensor.dtype).item_bytes;
  if ((is_npy && header.empty()) || !whole) {
    ++lost;
    return {};
  }
  const Fingerprint key = fingerprint(header, *tensor.bytes);
  std::shared_ptr<Primary> primary;
  int error_number = ENOENT;
  if (std::shared_ptr<Primary>* known = fingerprints.find(key)) {
    primary = *known;
    error_number = link_or_copy(step, record, tensor, *primary, path);
  }
  if (error_number == ENOENT) {  // new, or removed by the user
    error_number = write_primary(step, record, tensor, header, path);
    if (error_number != 0) return places->error("write a tensor in", step, error_number);
    primary = std::make_shared<Primary>(Primary{path, tensor.dtype});
    fingerprints.put(key, primary);
  }
  if (error_number != 0) return places->error("link a tensor in", step, error_number);
  // Equal files may contain different types (quint8, uint8): later tensors look for their own type.
  if (primary->dtype != tensor.dtype) primary = std::make_shared<Primary>(Primary{path, tensor.dtype});
  if (tensor.content != 0) contents.put(tensor.content, std::move(primary));
  return {};
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
  std::string path;
  if (Status status = store_bytes(**step, record, tensor, path); !status) return status;
  tensor.bytes.reset();
  if (path.empty()) return {};
  ++files;
  stored.push_back({record.sequence, tensor.is_input, tensor.slot, std::move(path)});
  return release_waiting(tensor.content, stored);
}

Status TensorWriter::State::link_known(const NamedRecord& record, RecordedTensor& tensor, Primary& known,
                                       std::vector<StoredFile>& stored) {
  Result<OpenDirectory*> step = places->of(record);
  if (!step) return step.error();
  std::string path;
  const int error_number = known.dtype == tensor.dtype ? link_or_copy(**step, record, tensor, known, path) : ENOENT;
  if (error_number == ENOENT) {
    ++lost;
    return {};
  }
  if (error_number != 0) return places->error("link a tensor in", **step, error_number);
  ++files;
  stored.push_back({record.sequence, tensor.is_input, tensor.slot, std::move(path)});
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
  AsideFile file(aside.get());
  int error_number = repeats ? 0 : file.create();
  if (error_number == 0 && !repeats) error_number = write_container(record, file, bytes_written);
  std::string path;
  const std::uint64_t time = record.timestamp_us;
  int taken = 0;
  const auto name = [&](int attempt) {
    taken = attempt;
    return layout.op_file_name(*record.op, task_number(record), time + static_cast<std::uint64_t>(attempt));
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

void TensorWriter::close_step(StepId step) {
  state_->places->close_step(step);
  state_->lost += std::erase_if(state_->waiting, [](const auto& entry) { return entry.second.old; });
  for (auto& entry : state_->waiting) entry.second.old = true;
}

Places& TensorWriter::places() { return *state_->places; }
std::uint64_t TensorWriter::bytes_written() const { return state_->bytes_written; }
std::uint64_t TensorWriter::files() const { return state_->files; }
std::uint64_t TensorWriter::lost() const { return state_->lost; }

}  // namespace sonde
