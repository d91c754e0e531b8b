// The values of one tensor: its file is opened, and nothing else.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "contract/served_rows.h"
#include "dump/formats/npy.h"
#include "dump/formats/tensor_file.h"
#include "face/report/json.h"
#include "face/server/ask.h"
#include "face/server/limits.h"
#include "ground/base/parse_number.h"
#include "ground/contract/json.h"
#include "ground/files/packed_path.h"
#include "read/catalog/replicas.h"
#include "read/measure/distribution.h"
#include "read/measure/measure.h"
#include "read/measure/slice.h"
#include "read/measure/values.h"

namespace sonde::server {
namespace {

struct AskedTensor {
  AskedOp at;
  CatalogTensor tensor;
  std::shared_ptr<const TensorFile> file;  // null if it was not asked for

  ListedTensor shown() const { return listed(at.of_rank(), at.part->step(), *at.op, tensor); }
};

Result<AskedTensor> asked_tensor(Ask& ask) {
  const bool is_input = ask.parameters.word("side", "output", {"input", "output"}) == "input";
  const std::uint64_t slot = ask.parameters.number("slot", 0, ~0U);
  const Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  Result<AskedOp> at = asked_op(ask, **facts);
  if (!at) return at.error();
  const Result<const CatalogTensor*> tensor = tensor_of(*at->op, is_input, slot);
  if (!tensor) return tensor.error();
  return AskedTensor{*at, **tensor, nullptr};
}

// Fails if a link leads from the tensor's file out of the dump. What does not exist fails when it is opened.
Status check_inside(const Ask& ask, const AskedTensor& asked) {
  std::error_code error;
  const std::filesystem::path file = asked.at.of_rank().directory / asked.tensor.file;
  const std::filesystem::path real = std::filesystem::canonical(file_of_tensor(file), error);
  if (error) return {};
  const std::filesystem::path& own = asked.at.of_rank().directory;
  const std::optional<std::uint32_t> writer = writer_of(asked.tensor.skipped);
  for (const std::filesystem::path& root : {own, ask.dump.path(), writer ? directory_beside(own, *writer) : own}) {
    const std::filesystem::path inside = real.lexically_relative(std::filesystem::canonical(root, error));
    if (!error && !inside.empty() && *inside.begin() != "..") return {};
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("'{}' is a link that leads out of the dump; it is not read", file.string())};
}

Result<AskedTensor> opened_tensor(Ask& ask) {
  Result<AskedTensor> asked = asked_tensor(ask);
  if (!asked) return asked;
  if (asked->tensor.file.empty()) {
    return Error{ErrorCode::not_found, fmt::format("the dump has no values of this tensor{}{}",
                                                   asked->tensor.skipped.empty() ? "" : ": ", asked->tensor.skipped)};
  }
  if (Status good = check_inside(ask, *asked); !good) return good.error();
  Result<TensorFile> file = open_file(asked->at.of_rank(), asked->tensor);
  if (!file) return file.error();
  asked->file = std::make_shared<const TensorFile>(std::move(*file));
  return asked;
}

std::string npy_bytes(const TensorView& view) {
  std::string bytes = numpy_header(view.dtype, view.shape);
  const auto elements = static_cast<std::size_t>(view.elements());
  std::string plain(view.bytes(), '\0');
  copy_c_order(view, reinterpret_cast<std::byte*>(plain.data()));
  if (!npy_needs_widening(view.dtype, false)) return bytes + plain;
  const std::size_t head = bytes.size();
  bytes.resize(head + elements * info(view.dtype).file_bytes);
  widen_for_npy(view.dtype, reinterpret_cast<const std::byte*>(plain.data()), elements,
                reinterpret_cast<std::byte*>(bytes.data() + head));
  return bytes;
}

Response npy_response(std::string bytes) {
  Response response;
  response.type = "application/x-npy";
  response.body = std::move(bytes);
  return response;
}

// Digits alone; a number of any size, since a range may end far behind the file.
std::optional<std::uint64_t> byte_position(std::string_view digits) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    value = value > (kMost - digit) / 10 ? kMost : value * 10 + digit;
  }
  return digits.empty() ? std::nullopt : std::optional(value);
}

// "bytes=0-99", "bytes=100-", "bytes=-100": first byte and end, both the size where nothing of the file is meant. Empty: not one
// such range, which is as if none was asked for (RFC 9110, 14.2).
std::optional<std::pair<std::uint64_t, std::uint64_t>> range_of(std::string_view text, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view first = text.substr(0, dash), last = text.substr(dash + 1);
  const std::optional<std::uint64_t> from = byte_position(first), to = byte_position(last);
  if ((!from && !first.empty()) || (!to && !last.empty()) || (!from && !to)) return std::nullopt;
  if (!from) return std::pair(size - std::min(size, *to), size);
  if (to && *to < *from) return std::nullopt;
  return std::pair(std::min(*from, size), to && *to < size ? *to + 1 : size);
}

enum class Wanted : std::uint8_t { nan, inf, bad, max, min };

// The first element from `from` on; of max and min the first of all.
std::optional<std::int64_t> find_element(const Slice& all, Wanted wanted, std::int64_t from) {
  const std::int64_t elements = all.elements();
  std::optional<std::int64_t> best;
  double best_value = 0;
  const bool is_extreme = wanted == Wanted::max || wanted == Wanted::min;
  for (std::int64_t i = is_extreme ? 0 : from; i < elements; ++i) {
    const double value = element_magnitude(all.whole, all.place_of(i));
    if (!is_extreme) {
      const bool is_nan = std::isnan(value), is_inf = std::isinf(value);
      if ((is_nan && wanted != Wanted::inf) || (is_inf && wanted != Wanted::nan)) return i;
    } else if (std::isfinite(value) && (!best || (wanted == Wanted::max ? value > best_value : value < best_value))) {
      best = i;
      best_value = value;
    }
  }
  return best;
}

}  // namespace

Result<Response> tensor_statistics(Ask& ask) {
  Result<AskedTensor> asked = asked_tensor(ask);
  if (!asked) return asked.error();
  if (Status good = check_inside(ask, *asked); !good) return good.error();
  Measurer measurer;
  if (Status done = measurer.measure(asked->at.of_rank(), asked->tensor); !done) return done.error();
  return json_response(text_of_json(json_of(asked->shown())));
}

Result<Response> tensor_histogram(Ask& ask) {
  DistributionOptions options;
  options.bins = ask.parameters.number("bins", 64, kLimits.histogram_bins);
  const std::string scale = ask.parameters.word("scale", "linear", {"linear", "log", "symlog"});
  options.scale = scale == "log" ? BinScale::log : scale == "symlog" ? BinScale::symlog : BinScale::linear;
  options.min = ask.parameters.real("min");
  options.max = ask.parameters.real("max");
  Result<AskedTensor> asked = opened_tensor(ask);
  if (!asked) return asked.error();
  if (options.bins == 0) return Error{ErrorCode::invalid_argument, "bins=0: at least 1"};
  Distribution distribution = distribution_of(asked->file->view(), options);
  const Histogram histogram{.tensor = asked->shown(),
                            .scale = options.scale,
                            .edges = std::move(distribution.edges),
                            .counts = std::move(distribution.counts),
                            .below = distribution.below,
                            .above = distribution.above,
                            .zero_count = distribution.zero_count,
                            .nan_count = distribution.non_finite.nan,
                            .positive_inf_count = distribution.non_finite.positive_inf,
                            .negative_inf_count = distribution.non_finite.negative_inf};
  return json_response(text_of_json(json_of(histogram)));
}

Result<Response> tensor_heat(Ask& ask) {
  const std::string text = ask.parameters.text("slice").value_or("");
  const std::uint64_t w = ask.parameters.number("w", 256, kLimits.picture_cells);
  const std::uint64_t h = ask.parameters.number("h", 256, kLimits.picture_cells);
  const Result<AskedTensor> asked = opened_tensor(ask);
  if (!asked) return asked.error();
  if (w == 0 || h == 0) return Error{ErrorCode::invalid_argument, "w and h: at least 1"};
  const Result<Slice> slice = slice_of(asked->file->view(), text);
  if (!slice) return slice.error();
  const Picture picture = picture_of(*slice, h, w);
  RowTable<ServedHeat> heat;
  for (std::size_t i = 0; i < picture.cells.size(); ++i) {
    const PictureCell& cell = picture.cells[i];
    const auto known = [&](double value) { return cell.finite > 0 ? std::optional(value) : std::nullopt; };
    heat.add({.row = static_cast<std::uint32_t>(i / picture.columns),
              .column = static_cast<std::uint32_t>(i % picture.columns),
              .min = known(cell.min),
              .mean = known(cell.mean),
              .max = known(cell.max),
              .bad = cell.bad});
  }
  return heat.table.response(ask.request, ask.snapshot->generation());
}

Result<Response> tensor_values(Ask& ask) {
  const std::string text = ask.parameters.text("slice").value_or("");
  const Result<AskedTensor> asked = opened_tensor(ask);
  if (!asked) return asked.error();
  const Result<Slice> slice = slice_of(asked->file->view(), text);
  if (!slice) return slice.error();
  const std::uint64_t bytes = static_cast<std::uint64_t>(slice->elements()) * info(asked->file->dtype()).file_bytes;
  if (bytes > kLimits.values_bytes) {
    return problem(413, fmt::format("the slice has {} bytes, at most {} are given at once; take a smaller slice, or "
                                    "tensor/file for the whole",
                                    bytes, kLimits.values_bytes));
  }
  return npy_response(npy_bytes(slice->view()));
}

Result<Response> tensor_next(Ask& ask) {
  const std::string of = ask.parameters.word("of", "", {"nan", "inf", "bad", "max", "min"});
  const std::uint64_t from = ask.parameters.number("from", 0, ~0ULL >> 1U);
  const Result<AskedTensor> asked = opened_tensor(ask);
  if (!asked) return asked.error();
  const Result<Slice> all = slice_of(asked->file->view(), "");
  if (!all) return all.error();
  const Wanted wanted = of == "nan"   ? Wanted::nan
                        : of == "inf" ? Wanted::inf
                        : of == "bad" ? Wanted::bad
                        : of == "max" ? Wanted::max
                                      : Wanted::min;
  const std::optional<std::int64_t> found = find_element(*all, wanted, static_cast<std::int64_t>(from));
  Element element;
  if (found) {
    std::vector<std::int64_t>& index = element.index.emplace(all->shape.size());
    std::int64_t rest = *found;
    for (std::size_t axis = index.size(); axis-- > 0;) {
      index[axis] = rest % all->shape[axis];
      rest /= all->shape[axis];
    }
    const std::int64_t place = all->place_of(*found);
    element.flat = static_cast<std::uint64_t>(*found);
    element.value = element_value(all->whole, place);
    element.text = exact_text(all->whole, place);
  }
  return json_response(text_of_json(json_of(element)));
}

Result<Response> tensor_file(Ask& ask) {
  const Result<AskedTensor> asked = opened_tensor(ask);
  if (!asked) return asked.error();
  const TensorView view = asked->file->view();
  Response response;
  if (view.is_c_contiguous() && !npy_needs_widening(view.dtype, false)) {
    response = npy_response(numpy_header(view.dtype, view.shape));
    response.tail = {reinterpret_cast<const char*>(view.data), view.elements() > 0 ? view.bytes() : 0};
    response.owner = asked->file;  // mapped: nothing is copied
  } else {
    response = npy_response(npy_bytes(view));
  }
  response.headers.emplace_back("Accept-Ranges", "bytes");
  response.headers.emplace_back("Content-Disposition", "attachment; filename=\"tensor.npy\"");
  const std::string_view wanted = ask.request.header("range");
  const std::uint64_t size = response.body.size() + response.tail.size();
  const auto range = range_of(wanted, size);
  if (wanted.empty() || !range) return response;
  const auto [first, end] = *range;
  if (first >= size) {
    Response refused = problem(416, fmt::format("the file has {} bytes", size));
    refused.headers.emplace_back("Content-Range", fmt::format("bytes */{}", size));
    return refused;
  }
  response.status = 206;
  response.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", first, end - 1, size));
  const std::uint64_t head = response.body.size();
  const std::uint64_t tail_end = end > head ? end - head : 0, tail_first = first > head ? first - head : 0;
  response.tail = response.tail.subspan(std::min<std::uint64_t>(tail_first, response.tail.size()),
                                        tail_end - std::min(tail_first, tail_end));
  response.body = first < head ? response.body.substr(first, end - first) : "";
  return response;
}

}  // namespace sonde::server
