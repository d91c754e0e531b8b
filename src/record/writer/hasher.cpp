#include "record/writer/hasher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ground/stats/hashes.h"

namespace sonde {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kManyMessages = 16;
constexpr std::chrono::milliseconds kLongestWait{20};
// About five milliseconds with all lanes in use. Between two pieces new tensors join the old ones: a large one, which
// takes long in its lane, is then seldom alone.
constexpr std::size_t kPieceBlocks = 16 << 10;

}  // namespace

struct Hasher::Job {
  BlockPtr bytes;
  std::size_t item_bytes = 1;
  std::shared_ptr<HashTexts> texts;
  Clock::time_point added;
  HashMessage md5;
  std::vector<HashMessage> slices;  // of SHA-1; the whole, if it has no more than one
  std::size_t slices_done = 0;
};

Hasher::Hasher(bool md5, bool sha1, std::uint64_t budget_bytes)
    : md5_(md5), sha1_(sha1), many_bytes_(budget_bytes / 8) {}

Hasher::~Hasher() = default;

std::shared_ptr<HashTexts> Hasher::add(BlockPtr bytes, std::size_t item_bytes) {
  auto job = std::make_unique<Job>();
  job->bytes = std::move(bytes);
  job->item_bytes = item_bytes;
  job->texts = std::make_shared<HashTexts>();
  job->added = Clock::now();
  std::shared_ptr<HashTexts> texts = job->texts;
  const Lock lock(mutex_);
  added_.push_back(std::move(job));
  return texts;
}

bool Hasher::is_idle() const {
  const Lock lock(mutex_);
  return jobs_.empty() && added_.empty();
}

bool Hasher::is_running() const { return running_; }

void Hasher::take() {
  std::vector<std::unique_ptr<Job>> added;
  {
    const Lock lock(mutex_);
    added.swap(added_);
  }
  jobs_.reserve(jobs_.size() + added.size());
  for (std::unique_ptr<Job>& job : added) {
    begin(*job);
    bytes_ += job->bytes->bytes;
    jobs_.push_back(std::move(job));
  }
}

void Hasher::begin(Job& job) {
  const Block& block = *job.bytes;
  if (sha1_) {
    job.slices = sha1_slices(block.data, block.bytes, job.item_bytes);
    for (HashMessage& slice : job.slices) sha1_lanes_.add(slice);
  }
  if (!md5_) return;
  job.md5.data = block.data;
  job.md5.bytes = block.bytes;
  md5_lanes_.add(job.md5);
}

// False: it is not done.
bool Hasher::finish(Job& job) {
  while (job.slices_done < job.slices.size() && job.slices[job.slices_done].done) ++job.slices_done;
  if (job.slices_done < job.slices.size() || (md5_ && !job.md5.done)) return false;
  if (md5_) job.texts->md5 = hex_of(job.md5);
  if (sha1_) job.texts->sha1 = sha1_of_slices(job.slices);
  job.texts->done = true;
  bytes_ -= job.bytes->bytes;
  return true;
}

bool Hasher::is_due() const {
  return md5_lanes_.messages() >= kManyMessages || sha1_lanes_.messages() >= kManyMessages || bytes_ >= many_bytes_ ||
         Clock::now() - jobs_.front()->added >= kLongestWait;
}

void Hasher::run(bool at_once) {
  take();
  if (jobs_.empty()) return;
  running_ = running_ || at_once || is_due();
  if (running_) run_piece(kPieceBlocks);
}

void Hasher::run_all() {
  take();
  run_piece(std::numeric_limits<std::size_t>::max());
}

void Hasher::run_piece(std::size_t blocks) {
  md5_lanes_.run(blocks);
  sha1_lanes_.run(blocks);
  std::erase_if(jobs_, [this](const std::unique_ptr<Job>& job) { return finish(*job); });
  if (jobs_.empty()) running_ = false;
}

}  // namespace sonde
