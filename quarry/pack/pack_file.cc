#include "quarry/pack/pack_file.h"

#include <algorithm>
#include <utility>

#include "quarry/base/file.h"
#include "quarry/format/text_difference.h"

namespace quarry {
namespace {

using format::PackTable;

/// @errors kDataLoss: the bytes end before the range does
Status CheckRange(const std::string& path, std::uint64_t size, std::uint64_t offset, std::uint64_t wanted) {
  if (offset <= size && wanted <= size - offset) return Status::Ok();
  return EndsEarly(path, size, offset + wanted - size);
}

/// A subfile in a pack.
class PackedObject final : public StoredObject {
 public:
  PackedObject(std::shared_ptr<const StoredObject> pack, std::uint64_t offset, std::uint64_t size,
               std::string path)
      : pack_(std::move(pack)), offset_(offset), size_(size), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    QUARRY_RETURN_IF_ERROR(CheckRange(path_, size_, offset, out.size()));
    return pack_->ReadAt(offset_ + offset, out);
  }
  void ExpectRead(std::uint64_t offset, std::uint64_t size) const override {
    pack_->ExpectRead(offset_ + offset, size);
  }
  bool Distrust(std::uint64_t offset, std::uint64_t size) const override {
    return pack_->Distrust(offset_ + offset, std::min(size, size_));
  }
  PackRange range() const { return {pack_.get(), offset_, size_}; }

 private:
  const std::shared_ptr<const StoredObject> pack_;
  const std::uint64_t offset_;
  const std::uint64_t size_;
  const std::string path_;
};

/// A step.json from a pack.
class TextObject final : public StoredObject {
 public:
  TextObject(std::string text, std::string path) : text_(std::move(text)), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return text_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    QUARRY_RETURN_IF_ERROR(CheckRange(path_, text_.size(), offset, out.size()));
    const auto bytes = std::as_bytes(std::span(text_)).subspan(offset, out.size());
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return Status::Ok();
  }

 private:
  const std::string text_;
  const std::string path_;
};

bool HasSteps(const PackTable& table, const std::vector<format::StepRun>& runs) {
  std::size_t next = 0;
  for (const format::StepRun& run : runs) {
    for (std::uint64_t i = 0; i < run.steps; ++i, ++next) {
      if (next == table.steps.size() || table.steps[next].step != run.first + i * run.distance) return false;
    }
  }
  return next == table.steps.size();
}

/// @param back  the last bytes of the file: more of the table is read where they have only its end
Result<PackTable> ReadTable(const StoredObject& file, Bytes back) {
  constexpr std::uint64_t kSmallest = format::kPackBegin + format::kPackFooter;
  if (file.size() < kSmallest) return DataLoss("it has {} bytes, too few for a pack", file.size());
  const ByteSpan end = ByteSpan(back).last(format::kPackFooter);
  QUARRY_ASSIGN_OR_RETURN(const format::PackFooter footer, format::DecodePackFooter(end, file.size()));
  const std::uint64_t begin = file.size() - back.size();
  if (footer.table_offset < begin) {
    Bytes front(begin - footer.table_offset);
    QUARRY_RETURN_IF_ERROR(file.ReadAt(footer.table_offset, front));
    back.insert(back.begin(), front.begin(), front.end());
  }
  const std::size_t at = footer.table_offset - (file.size() - back.size());
  return format::DecodePackTable(ByteSpan(back).subspan(at, footer.table_size), footer);
}

}  // namespace

Result<std::shared_ptr<const PackFile>> PackFile::Open(const Location& path,
                                                       const std::vector<format::StepRun>& steps,
                                                       Stamp* stamp) {
  constexpr std::uint64_t kBack = 16 << 10;  // most tables
  auto pack = std::make_shared<PackFile>();
  pack->storage_ = path.storage;
  const std::uint64_t back = std::max(kBack, path.storage->costs().gap());
  QUARRY_ASSIGN_OR_RETURN(OpenedFile opened, path.OpenWith(FileEnd::kBack, back, stamp));
  pack->file_ = std::move(opened.object);
  QUARRY_ASSIGN_OR_RETURN(
      pack->table_, ReadTable(*pack->file_, std::move(opened.bytes)).Annotate(fmt::format("\"{}\"", path)));
  if (!HasSteps(pack->table_, steps))
    return DataLoss("\"{}\" has other steps than its name says; give it back its name", path);
  pack->payload_ = path.storage->AllowCopies(pack->file_);
  return std::shared_ptr<const PackFile>(std::move(pack));
}

/// [bytes] of the step.json of which others are stored as differences; it lies behind the begin of the pack.
std::uint64_t PackFile::FirstBytes() const {
  const auto is_difference = [](const PackTable::Step& step) { return step.stored < step.size; };
  return std::ranges::any_of(table_.steps, is_difference) ? table_.steps.front().size : 0;
}

/// Reads ranges of the pack. What all files need is read with the first of them: the begin, which says
/// whether this is a pack at all, and the step.json of which others are differences.
Status PackFile::Read(std::vector<ReadRange> ranges) const {
  const auto never = [] { return false; };
  Bytes front;
  {
    const std::lock_guard lock(mutex_);
    if (!begun_) front.resize(format::kPackBegin + FirstBytes());
  }
  if (!front.empty()) ranges.push_back({file_.get(), 0, front});
  if (ranges.empty()) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(storage_->ReadRanges(ranges, never));
  if (front.empty()) return Status::Ok();
  const ByteSpan bytes = front;
  QUARRY_RETURN_IF_ERROR(
      format::CheckPackBegin(bytes.first(format::kPackBegin)).Annotate(fmt::format("\"{}\"", file_->path())));
  const ByteSpan first = bytes.subspan(format::kPackBegin);
  const std::lock_guard lock(mutex_);
  if (!begun_) first_.assign(reinterpret_cast<const char*>(first.data()), first.size());
  begun_ = true;
  return Status::Ok();
}

Result<std::string> PackFile::Manifest(const PackTable::Step& step) const {
  std::string stored(step.stored, '\0');
  QUARRY_RETURN_IF_ERROR(Read({{file_.get(), step.offset, std::as_writable_bytes(std::span(stored))}}));
  if (step.stored == step.size) return stored;
  return format::DecodeDifference(std::as_bytes(std::span(stored)), first_, step.size)
      .Annotate(fmt::format("step.json of step {} in \"{}\"", step.step, file_->path()));
}

Result<std::shared_ptr<const StoredObject>> PackFile::OpenPart(std::uint64_t step, std::string_view file,
                                                               std::string path) const {
  const PackTable::Step* const found = table_.FindStep(step);
  if (found != nullptr && file == "step.json") {
    QUARRY_ASSIGN_OR_RETURN(std::string text, Manifest(*found));
    return std::shared_ptr<const StoredObject>(
        std::make_shared<TextObject>(std::move(text), std::move(path)));
  }
  const PackTable::File* const part = found == nullptr ? nullptr : table_.FindFile(*found, file);
  if (part == nullptr) return NotFound("cannot open \"{}\": \"{}\" does not have it", path, file_->path());
  QUARRY_RETURN_IF_ERROR(Read({}));
  return std::shared_ptr<const StoredObject>(
      std::make_shared<PackedObject>(payload_, part->offset, part->size, std::move(path)));
}

std::optional<PackRange> RangeInPack(const StoredObject& file) {
  const auto* const packed = dynamic_cast<const PackedObject*>(&file);
  return packed == nullptr ? std::nullopt : std::optional(packed->range());
}

}  // namespace quarry
