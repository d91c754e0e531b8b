#include "dump/formats/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "dump/formats/little_endian.h"
#include "dump/formats/pickle.h"
#include "dump/formats/zip_reader.h"
#include "ground/files/mapped_file.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

// torch.save before 1.6, and with _use_new_zipfile_serialization=False, writes pickles of a number, a version, the
// machine, the object, and the keys of its storages; the storages follow.
constexpr std::string_view kOldStart(
    "\x80\x02\x8a\x0a"
    "l\xfc\x9c"
    "F\xf9 j\xa8"
    "P\x19.",
    15);

struct Place {
  std::uint64_t offset = 0, bytes = 0;
};
using Storages = std::unordered_map<std::string_view, Place>;

// The index of the last element in its storage plus one; 0 without elements; empty if no file is that large.
std::optional<std::uint64_t> end_of(const PickledTensor& tensor) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return 0;
  std::uint64_t last = tensor.offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const auto steps = static_cast<std::uint64_t>(tensor.shape[d]) - 1;
    const auto stride = static_cast<std::uint64_t>(tensor.strides[d]);
    if (steps > 0 && stride > kMost / steps) return std::nullopt;
    last += steps * stride;
    if (last > kMost) return std::nullopt;
  }
  return last + 1;
}

Result<TorchTensor> placed(PickledTensor&& from, const Place& storage) {
  const std::uint64_t item = std::max<std::uint64_t>(info(from.dtype).item_bytes, 1);
  const std::optional<std::uint64_t> end = end_of(from);
  if (!end || *end > storage.bytes / item || (*end > 0 && from.offset > storage.bytes / item)) {
    return Error{ErrorCode::corrupt,
                 fmt::format("tensor '{}' of shape {} and strides {} from element {} on does not fit into its storage "
                             "of {} bytes",
                             from.name, shape_text(from.shape, '(', ')'), shape_text(from.strides, '(', ')'),
                             from.offset, storage.bytes)};
  }
  TorchTensor out;
  out.name = std::move(from.name);
  out.dtype = from.dtype;
  out.shape = std::move(from.shape);
  out.strides = std::move(from.strides);
  out.data_offset = storage.offset + (*end == 0 ? 0 : from.offset * item);
  out.conjugate = from.conjugate;
  out.negative = from.negative;
  return out;
}

// --- zip

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('/') + 1); }

// `archive/data.pkl`, with any name in place of `archive`.
Result<std::string_view> entry_at(std::string_view file, const std::vector<ZipEntry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &ZipEntry::name);
  if (found == entries.end()) {
    return Error{ErrorCode::corrupt, "the zip has no '" + std::string(name) + "'"};
  }
  return bytes_of(file, *found);
}

Result<TorchHeader> parse_zip(std::string_view file) {
  const Result<std::vector<ZipEntry>> entries = read_zip(file);
  if (!entries) return entries.error();
  const auto pickle = std::ranges::find(*entries, "data.pkl", [](const ZipEntry& e) { return last_part(e.name); });
  if (pickle == entries->end()) {
    return Error{ErrorCode::unsupported, "the zip has no data.pkl, so torch.save did not write it"};
  }
  const Result<std::string_view> bytes = bytes_of(file, *pickle);
  if (!bytes) return bytes.error();
  Result<Pickled> object = read_pickle(*bytes);
  if (!object) return object.error();
  const std::string root(pickle->name.substr(0, pickle->name.size() - std::string_view("data.pkl").size()));
  TorchHeader header;
  if (const auto order = entry_at(file, *entries, root + "byteorder")) header.big_endian = *order == "big";
  std::unordered_map<std::string_view, const ZipEntry*> by_key;
  const std::string data = root + "data/";
  for (const ZipEntry& entry : *entries) {
    if (entry.name.starts_with(data)) by_key.emplace(entry.name.substr(data.size()), &entry);
  }
  for (PickledTensor& tensor : object->tensors) {
    const auto entry = by_key.find(tensor.storage);
    if (entry == by_key.end()) {
      return Error{ErrorCode::corrupt, "the zip has no '" + data + std::string(tensor.storage.substr(0, 200)) + "'"};
    }
    const Result<std::string_view> storage = bytes_of(file, *entry->second);
    if (!storage) return storage.error();
    Result<TorchTensor> out =
        placed(std::move(tensor), {static_cast<std::uint64_t>(storage->data() - file.data()), storage->size()});
    if (!out) return out.error();
    header.tensors.push_back(std::move(*out));
  }
  return header;
}

// --- before 1.6

Error cut_off(std::uint64_t at) {
  return Error{ErrorCode::corrupt, fmt::format("the file is cut off: a storage begins at byte {}, its end", at)};
}

// Storages in the order of `keys`: the number of elements, 8 bytes, then the elements.
Result<Storages> old_storages(std::string_view file, std::uint64_t at, const Pickled& object,
                              const std::vector<std::string_view>& keys) {
  std::unordered_map<std::string_view, std::uint64_t> item_bytes;
  for (const PickledStorage& storage : object.storages) item_bytes[storage.key] = storage.item_bytes;
  Storages places;
  for (const std::string_view key : keys) {
    if (file.size() - at < 8) return cut_off(at);
    const auto elements = little<std::uint64_t>(file, at);
    at += 8;
    const std::uint64_t item = item_bytes.contains(key) ? item_bytes[key] : 1;
    if (elements > (file.size() - at) / item) {
      return Error{ErrorCode::corrupt, fmt::format("a storage at byte {} is said to have {} elements of {} bytes; the "
                                                   "file has {} bytes",
                                                   at, elements, item, file.size())};
    }
    places[key] = {at, elements * item};
    at += elements * item;
  }
  return places;
}

Result<TorchHeader> parse_old(std::string_view file) {
  std::uint64_t at = 0;
  Pickled object, keys;
  for (int part = 0; part < 5; ++part) {  // the number, its version, the machine, the object, the keys
    Result<Pickled> read = read_pickle(file.substr(at));
    if (!read) return read.error();
    at += read->bytes;
    if (part == 3) object = std::move(*read);
    if (part == 4) keys = std::move(*read);
  }
  const Result<Storages> storages = old_storages(file, at, object, keys.texts);
  if (!storages) return storages.error();
  TorchHeader header;
  for (PickledTensor& tensor : object.tensors) {
    const auto place = storages->find(tensor.storage);
    if (place == storages->end()) return Error{ErrorCode::corrupt, "a tensor's storage is not in the file"};
    Result<TorchTensor> out = placed(std::move(tensor), place->second);
    if (!out) return out.error();
    header.tensors.push_back(std::move(*out));
  }
  return header;
}

}  // namespace

bool is_torch(std::string_view start) { return is_zip(start) || start.starts_with(kOldStart); }

Result<TorchHeader> parse_torch(std::string_view file) {
  if (is_zip(file)) return parse_zip(file);
  if (file.starts_with(kOldStart)) return parse_old(file);
  return Error{ErrorCode::corrupt, "not a file of torch.save (expected a zip archive, or a pickle of before 1.6)"};
}

Result<TorchHeader> read_torch(const std::filesystem::path& path) {
  const Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  Result<TorchHeader> header = parse_torch(mapped->text());
  if (!header) return cannot_read(path, header.error().code, header.error().message);
  return header;
}

}  // namespace sonde
