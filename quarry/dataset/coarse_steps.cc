#include "quarry/dataset/coarse_steps.h"

#include <algorithm>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/manifest.h"
#include "quarry/pack/packed_steps.h"

namespace quarry {

/// A file of which an object has the front and the back.
class CoarseSteps::AtHand final : public StoredObject {
 public:
  AtHand(std::shared_ptr<const StoredObject> inner, std::shared_ptr<const CoarseCopy> copy, std::size_t file)
      : inner_(std::move(inner)), copy_(std::move(copy)), file_(file) {}

  const std::string& path() const override { return inner_->path(); }
  std::uint64_t size() const override { return inner_->size(); }
  std::string version() const override { return inner_->version(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    return Take(offset, out) ? Status::Ok() : inner_->ReadAt(offset, out);
  }
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const override {
    if (BytesAt(offset, size).empty()) inner_->ExpectRead(offset, size);
  }
  /// The storage behind hears it as well: its copies are as little trusted.
  bool Distrust(std::uint64_t offset, std::uint64_t size) const override {
    copy_->is_wrong = true;
    (void)inner_->Distrust(offset, size);
    return true;
  }
  std::uint64_t back_at_hand() const override {
    return copy_->is_wrong ? 0 : copy_->object.files()[file_].back;
  }

  const StoredObject& inner() const { return *inner_; }
  /// Fills a range that is in the object; returns false for any other.
  bool Take(std::uint64_t offset, std::span<std::byte> out) const {
    const ByteSpan bytes = BytesAt(offset, out.size());
    std::ranges::copy(bytes, out.begin());
    return !bytes.empty();
  }

 private:
  /// The bytes of a range; none if not all of them are in the object.
  ByteSpan BytesAt(std::uint64_t offset, std::uint64_t size) const {
    if (copy_->is_wrong || offset > this->size() || size > this->size() - offset) return {};
    const ByteSpan front = copy_->object.Front(file_);
    if (offset + size <= front.size()) return front.subspan(offset, size);
    const ByteSpan back = copy_->object.Back(file_);
    const std::uint64_t begin = this->size() - back.size();
    return offset >= begin ? back.subspan(offset - begin, size) : ByteSpan();
  }

  const std::shared_ptr<const StoredObject> inner_;
  const std::shared_ptr<const CoarseCopy> copy_;
  const std::size_t file_;
};

CoarseSteps::CoarseSteps(const Location& root)
    : StorageAround(root.storage),
      root_(root),
      objects_(PackedStepsOf(root) != nullptr ? PackedStepsOf(root)->inner() : root.storage, root.path) {}

bool CoarseSteps::was_asked_for(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  return asked_.contains(step);
}

void CoarseSteps::SetAskedFor(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  asked_.insert(step);
}

Result<CoarseCopy> CoarseSteps::Read(std::uint64_t step) const {
  const Location path = objects_ / format::StepFolder(step) / format::kCoarseFile;
  // One request, where ReadWhole may ask for the size first.
  QUARRY_ASSIGN_OR_RETURN(OpenedFile file, path.OpenWith(FileEnd::kFront, format::kCoarseLimit, nullptr));
  QUARRY_RETURN_IF_ERROR(CheckFileSize(path.path, file.object->size(), format::kCoarseLimit));
  QUARRY_ASSIGN_OR_RETURN(
      format::CoarseObject object,
      format::CoarseObject::Decode(std::move(file.bytes)).Annotate(fmt::format("\"{}\"", path)));
  return CoarseCopy(std::move(object));
}

void CoarseSteps::Offer(const std::shared_ptr<const CoarseCopy>& copy) const {
  constexpr std::size_t kSome = 1024;
  const std::lock_guard lock(mutex_);
  if (offered_.size() >= purge_at_) {
    std::erase_if(offered_, [](const auto& entry) { return entry.second.expired(); });
    purge_at_ = kSome + 2 * offered_.size();
  }
  for (const format::CoarseFile& file : copy->object.files()) offered_[file.path] = copy;
}

std::string_view CoarseSteps::Below(std::string_view path) const {
  const std::string_view root = root_.path;
  if (root.empty()) return path;
  if (!path.starts_with(root)) return {};
  path.remove_prefix(root.size());
  if (root.ends_with('/')) return path;
  return path.starts_with('/') ? path.substr(1) : std::string_view();
}

std::shared_ptr<const CoarseCopy> CoarseSteps::CopyWith(std::string_view path) const {
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(path);
  return found == offered_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<const StoredObject> CoarseSteps::Refer(const std::string& path, std::uint64_t size,
                                                       std::uint64_t content) const {
  std::shared_ptr<const StoredObject> referred = inner()->Refer(path, size, content);
  std::shared_ptr<const CoarseCopy> copy = CopyWith(Below(path));
  if (!copy || copy->is_wrong) return referred;
  const std::size_t number = copy->object.Find(Below(path));
  const format::CoarseFile& file = copy->object.files()[number];
  // The object has another file of this path, from before the step was replaced.
  if (file.size != size || file.table_checksum != content) return referred;
  return std::make_shared<const AtHand>(std::move(referred), std::move(copy), number);
}

std::unique_ptr<Reading> CoarseSteps::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                            const std::function<bool()>& cancelled) const {
  std::vector<ReadRange> rest;
  std::vector<std::size_t> numbers;
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto* const at_hand = dynamic_cast<const AtHand*>(ranges[i].object);
    if (at_hand != nullptr && at_hand->Take(ranges[i].offset, ranges[i].out)) {
      taken.push_back(i);
      continue;
    }
    if (at_hand != nullptr) ranges[i].object = &at_hand->inner();
    rest.push_back(ranges[i]);
    numbers.push_back(i);
  }
  if (rest.empty()) {
    for (const std::size_t range : taken) done(range, Status::Ok());
    return EndedAlready();
  }
  // Requests go first: nobody waits for bytes that are there.
  auto reading = inner()->BeginRead(
      std::move(rest),
      [numbers = std::move(numbers), done](std::size_t range, const Status& status) {
        done(numbers[range], status);
      },
      cancelled);
  for (const std::size_t range : taken) done(range, Status::Ok());
  return reading;
}

}  // namespace quarry
