#include "quarry/storage/storage.h"

#include <filesystem>

#include "quarry/base/file.h"

namespace quarry {

Result<Bytes> ReadWhole(const StoredObject& object, std::uint64_t limit) {
  QUARRY_RETURN_IF_ERROR(CheckFileSize(object.path(), object.size(), limit));
  Bytes bytes(object.size());
  QUARRY_RETURN_IF_ERROR(object.ReadAt(0, bytes));
  return bytes;
}

Result<std::string> ReadText(const StoredObject& object, std::uint64_t limit) {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadWhole(object, limit));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<Bytes> Storage::ReadWhole(const std::string& path, std::uint64_t limit) const {
  QUARRY_ASSIGN_OR_RETURN(const std::shared_ptr<const StoredObject> object, Open(path));
  return quarry::ReadWhole(*object, limit);
}

ObjectKind Storage::KindBehindLink(const std::string& path) const {
  const Result<ObjectInfo> info = Stat(path);
  return info.ok() ? info->kind : ObjectKind::kOther;
}

Status Storage::ReadRanges(std::span<const ReadRange> ranges, const std::function<bool()>& cancelled) const {
  // A coarse level is a few bytes in each of many places. Reading them one after the other from a disk takes
  // the sum of all its delays; announced together, they overlap.
  if (ranges.size() > 1) {
    for (const ReadRange& range : ranges) range.object->ExpectRead(range.offset, range.out.size());
  }
  for (const ReadRange& range : ranges) {
    if (cancelled()) return {StatusCode::kCancelled, "the read was cancelled"};
    QUARRY_RETURN_IF_ERROR(range.object->ReadAt(range.offset, range.out));
  }
  return Status::Ok();
}

std::string Storage::AbsolutePath(const std::string& path) const {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  while (normal.ends_with('/')) normal.pop_back();
  return normal == "." ? std::string() : normal;
}

}  // namespace quarry
