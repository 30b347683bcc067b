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

Result<std::string> ReadTextAt(const StoredObject& file, std::uint64_t offset, std::uint64_t size) {
  std::string text(size, '\0');
  QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<PackTable> ReadTable(const StoredObject& file) {
  constexpr std::uint64_t kSmallest = format::kPackBegin + format::kPackFooter;
  if (file.size() < kSmallest) return DataLoss("it has {} bytes, too few for a pack", file.size());
  Bytes begin(format::kPackBegin);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(0, begin));
  QUARRY_RETURN_IF_ERROR(format::CheckPackBegin(begin));
  Bytes end(format::kPackFooter);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(file.size() - end.size(), end));
  QUARRY_ASSIGN_OR_RETURN(const format::PackFooter footer, format::DecodePackFooter(end, file.size()));
  Bytes table(footer.table_size);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(footer.table_offset, table));
  return format::DecodePackTable(table, footer);
}

}  // namespace

Result<std::shared_ptr<const PackFile>> PackFile::Open(const Location& path,
                                                       const std::vector<format::StepRun>& steps) {
  auto pack = std::make_shared<PackFile>();
  QUARRY_ASSIGN_OR_RETURN(pack->file_, path.Open());
  QUARRY_ASSIGN_OR_RETURN(pack->table_, ReadTable(*pack->file_).Annotate(fmt::format("\"{}\"", path)));
  if (!HasSteps(pack->table_, steps))
    return DataLoss("\"{}\" has other steps than its name says; give it back its name", path);
  const auto is_difference = [](const PackTable::Step& step) { return step.stored < step.size; };
  if (std::ranges::any_of(pack->table_.steps, is_difference)) {
    const PackTable::Step& first = pack->table_.steps.front();
    QUARRY_ASSIGN_OR_RETURN(pack->first_, ReadTextAt(*pack->file_, first.offset, first.size));
  }
  return std::shared_ptr<const PackFile>(std::move(pack));
}

Result<std::string> PackFile::Manifest(const PackTable::Step& step) const {
  if (step.stored == step.size) return ReadTextAt(*file_, step.offset, step.size);
  Bytes stored(step.stored);
  QUARRY_RETURN_IF_ERROR(file_->ReadAt(step.offset, stored));
  return format::DecodeDifference(stored, first_, step.size)
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
  return std::shared_ptr<const StoredObject>(
      std::make_shared<PackedObject>(file_, part->offset, part->size, std::move(path)));
}

std::optional<PackRange> RangeInPack(const StoredObject& file) {
  const auto* const packed = dynamic_cast<const PackedObject*>(&file);
  return packed == nullptr ? std::nullopt : std::optional(packed->range());
}

}  // namespace quarry
