#include "record/capture/tensor_reading.h"

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "ground/model/not_read.h"
#include "record/capture/devices.h"
#include "record/writer/recorder.h"
#include "record/writer/ring.h"

namespace sonde {
namespace {

constexpr const char* kDropped = "dropped: the budget was full";
constexpr const char* kBudgetFull = "statistics only: the budget was full";

// Records keep the address, and outlive their session.
const char* replica_text(std::uint32_t rank) {
  static std::mutex lock;
  static auto* const texts = new std::unordered_map<std::uint32_t, std::string>;  // leaked, for threads of the end
  const std::lock_guard<std::mutex> guard(lock);
  std::string& text = (*texts)[rank];
  if (text.empty()) text = std::string(kReplica) + std::to_string(rank);
  return text.c_str();
}

bool has_md5(const Content& content) {
  return !content.md5.empty() || content.hashes != nullptr || (content.late != nullptr && content.late->is_hashed);
}

// CANN's comparisons begin with the first element, and no value is greater than a NaN.
bool first_is_nan(const DeviceAccess& reader, TensorView view, const Statistics& statistics) {
  if (statistics.nan_count == 0) return false;
  view.shape = {};
  view.strides = {};
  return reader.summarize(view).nan_count > 0;
}

}  // namespace

ReadRules::ReadRules(const Plan& of)
    : plan(&of),
      needs_bytes(of.wants_tensors()),
      reshapes(RecordedView::differs(of)),
      hashes(of.wants(Category::md5) || of.wants(Category::sha1)),
      on_device(of.device_statistics && !needs_bytes && !hashes && !of.sonde.acl_quirks),
      looks_on_device(of.overflow_only()) {}

bool ReadRules::has_bytes_each_time(const Plan& plan, const Layout& layout) {
  return plan.wants_tensors() && layout.tensor_form() == TensorForm::container;
}

TensorReading::TensorReading(const ReadRules& rules, const HostTensor& tensor, const TensorKey& key, TensorRecord& out,
                             Depth depth)
    : rules_(rules), key_(key), tensor_(tensor), depth_(depth), out_(out), view_(tensor.view), hashes_(rules.hashes) {
  if (!rules.reshapes) return;
  recorded_view_.emplace(tensor.view, *rules.plan, tensor.access);
  if (recorded_view_->is_sample()) first_elements_ = static_cast<std::uint64_t>(recorded_view_->view().elements());
  view_ = recorded_view_->view();
  out.set_shape(Dims(view_.shape));
  out.format = recorded_view_->format();
}

void TensorReading::set_writer(std::uint32_t writer) {
  is_shared_ = writer != 0;
  if (!is_shared_) return;
  hashes_ = true;
  content_.writer = writer;
  if (writer - 1 != *rules_.own_rank) replica_of_ = replica_text(writer - 1);
}

void TensorReading::give_known(ContentCache& cache, const TensorKey& key, TensorRecord& out) {
  const ContentCache::Found found = cache.find(key);
  if (found.uninitialised) {
    out.skipped = kUninitialised;
  } else if (found.same != nullptr) {
    give_content(*found.same, out);
  }
}

// Without reading it again.
bool TensorReading::give_if_known(const ContentCache::Found& found) {
  if (found.same == nullptr) return false;
  const bool has_file = !rules_.bytes_each_time && found.same->has_bytes &&
                        (rules_.ring == nullptr || rules_.ring->holds(found.same->id));
  const bool lacks_md5 = is_shared_ && !has_md5(*found.same);
  if (rules_.needs_bytes && (has_file ? lacks_md5 && replica_of_ == nullptr : lacks_md5 || replica_of_ == nullptr)) {
    return false;
  }
  give_content(*found.same, out_);
  if (rules_.needs_bytes && !has_file) out_.skipped = replica_of_;
  return true;
}

bool TensorReading::look_up(ContentCache& cache, bool skips_uninitialised) {
  const ContentCache::Found found = cache.find(key_);
  if (found.uninitialised && skips_uninitialised) {
    out_.skipped = kUninitialised;
    return false;
  }
  const bool again = rules_.bytes_each_time;
  // The elements are on other ranks too, which have recorded them when they were read first.
  if (rules_.asks_for_writers() && found.same != nullptr && !is_shared_) set_writer(found.same->writer);
  if (give_if_known(found)) return false;
  if (found.same != nullptr && depth_ == Depth::statistics) {
    give_content(*found.same, out_);
    out_.skipped = kStatisticsOnly;
    return false;
  }
  if (view_.elements() == 0) out_.skipped = "empty tensor";
  if (info(view_.dtype).dtype == DType::undefined) out_.skipped = "element type not supported";
  if (depth_ == Depth::nothing && out_.skipped == nullptr) out_.skipped = kNotRead;
  if (out_.skipped != nullptr) return false;
  // Bytes and statistics must come from one read: the memory may have been written unnoticed since the last one.
  // The first elements of another order are others.
  if (found.same_set != nullptr && !rules_.needs_bytes && !rules_.reshapes) {
    content_.has_statistics = found.same_set->has_statistics;
    content_.statistics = found.same_set->statistics;
    if (!hashes_) content_.late = found.same_set->late;
  }
  content_.id = found.same != nullptr && again ? found.same->id : cache.new_content();
  epoch_ = found.epoch;
  return true;
}

// True if the tensor is read without its bytes if there is no room for them.
bool TensorReading::take_block(BlockPool& blocks) {
  const WhenFull when_full = rules_.plan->sonde.when_full;
  const std::uint64_t bytes = view_.bytes();
  out_.bytes = when_full == WhenFull::wait ? blocks.take(bytes) : blocks.try_take(bytes);
  if (out_.bytes != nullptr) return true;
  const bool drops = when_full == WhenFull::drop;
  out_.skipped = drops ? kDropped : kBudgetFull;
  return !drops;
}

bool TensorReading::read(Recorder& recorder) {
  if (tensor_.handle != nullptr) return begin_late(recorder.blocks());
  if (rules_.needs_bytes && depth_ != Depth::full) {
    out_.skipped = kStatisticsOnly;
  } else if (replica_of_ != nullptr) {
    out_.skipped = replica_of_;
  } else if (rules_.needs_bytes && !take_block(recorder.blocks())) {
    return false;
  }
  measure(recorder);
  give_content(content_, out_);
  return true;
}

void TensorReading::measure(Recorder& recorder) {
  const Plan& plan = *rules_.plan;
  const DeviceAccess& reader = *device_access(view_.device);  // a sample may be on the host already
  const bool summarises = info(view_.dtype).has_statistics && !content_.has_statistics;
  if (out_.bytes || summarises) out_.bytes_read = view_.bytes();
  BlockPtr to_hash = block_to_hash(recorder);
  std::byte* copy = to_hash ? to_hash->data : out_.bytes ? out_.bytes->data : nullptr;
  if (summarises) {
    Statistics& statistics = content_.statistics;
    statistics = copy != nullptr ? reader.summarize_and_copy(view_, copy) : reader.summarize(view_);
    content_.has_statistics = true;
    statistics.first_is_nan = plan.sonde.acl_quirks && first_is_nan(reader, view_, statistics);
  } else if (copy != nullptr) {
    reader.copy_c_order(view_, copy);
  }
  content_.has_bytes = out_.bytes != nullptr;
  if (hashes_) hash(recorder, std::move(to_hash));
}

// The bytes on their way from devices are part of the budget too: those that have arrived go to the writer, which frees
// them. Null: `why`.
BlockPtr TensorReading::late_block(BlockPool& blocks, const char*& why) const {
  const std::uint64_t bytes = view_.bytes();
  const WhenFull when_full = rules_.plan->sonde.when_full;
  if (!blocks.has_room(bytes)) {
    const bool waits = when_full == WhenFull::wait;
    if (waits) drain_devices();
    if (!waits || !blocks.wait_for_room(bytes)) {
      why = when_full == WhenFull::drop ? kDropped : kBudgetFull;
      return nullptr;
    }
  }
  return take_device_block(blocks, bytes, why);
}

// Asks the host to read the tensor while the program goes on.
bool TensorReading::begin_late(BlockPool& blocks) {
  if (content_.late != nullptr) {  // the same elements in another shape: their statistics
    give_content(content_, out_);
    return true;
  }
  const bool has_statistics = info(view_.dtype).has_statistics;
  const bool keeps_bytes = rules_.needs_bytes && depth_ == Depth::full && replica_of_ == nullptr;
  if (rules_.needs_bytes && !keeps_bytes) out_.skipped = replica_of_ != nullptr ? replica_of_ : kStatisticsOnly;
  const bool computes_there = rules_.on_device || (rules_.needs_bytes && !keeps_bytes && replica_of_ == nullptr);
  const bool wants_bytes = keeps_bytes || hashes_ || (has_statistics && !computes_there);
  bool wants_statistics = rules_.looks_on_device || (has_statistics && computes_there);
  const auto late = std::make_shared<LateReading>();
  late->dtype = view_.dtype;
  late->elements = view_.elements();
  late->is_hashed = hashes_;
  if (wants_bytes) {
    late->bytes = late_block(blocks, out_.skipped);
    if (late->bytes == nullptr && out_.skipped == kDropped) return false;
    wants_statistics = wants_statistics || (late->bytes == nullptr && has_statistics);
  }
  if (late->bytes == nullptr && !wants_statistics) return false;
  if (late->bytes != nullptr && keeps_bytes) out_.bytes = BlockPool::share(late->bytes);
  if (!ask(late, wants_statistics)) {
    out_.bytes.reset();
    return false;
  }
  out_.bytes_read = view_.bytes();
  content_.has_bytes = out_.bytes != nullptr;
  content_.late = late;
  give_content(content_, out_);
  return true;
}

// False: the host refuses.
bool TensorReading::ask(const std::shared_ptr<LateReading>& late, bool wants_statistics) {
  sonde_device_read request{};
  request.wants = wants_statistics ? SONDE_READ_STATISTICS : 0U;
  request.elements = first_elements_;
  return begin_reading(late, request, tensor_, first_elements_ != 0 ? tensor_.view : view_, out_.skipped);
}

// Null: the hashes are made here, from the tensor itself.
BlockPtr TensorReading::block_to_hash(Recorder& recorder) const {
  if (!hashes_ || !recorder.can_hash(view_.bytes())) return nullptr;
  return out_.bytes ? BlockPool::share(out_.bytes) : recorder.blocks().try_take(view_.bytes());
}

void TensorReading::hash(Recorder& recorder, BlockPtr bytes) {
  if (bytes) {
    content_.hashes = recorder.hash(std::move(bytes), info(view_.dtype).item_bytes, !out_.bytes);
    return;
  }
  const DeviceAccess& reader = *device_access(view_.device);
  if (is_shared_ || rules_.plan->wants(Category::md5)) content_.md5 = reader.md5_hex(view_);
  if (rules_.plan->wants(Category::sha1)) content_.sha1 = reader.sha1_hex(view_);
}

void TensorReading::publish(ContentCache& cache) {
  if (rules_.ring != nullptr && content_.has_bytes) rules_.ring->expect(content_.id);
  cache.insert(key_, std::move(content_), epoch_);
}

}  // namespace sonde
