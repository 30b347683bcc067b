#include "quarry/storage/location.h"

namespace quarry {

std::string Location::name() const {
  const std::string absolute = storage->AbsolutePath(path);
  return absolute.substr(absolute.rfind('/') + 1);
}

Result<std::string> Location::ReadText(std::uint64_t limit) const {
  QUARRY_ASSIGN_OR_RETURN(const Bytes bytes, ReadWhole(limit));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Location Location::Below(std::string_view name) const {
  std::string below;
  below.reserve(path.size() + 1 + name.size());
  below += path;
  if (!path.empty() && !path.ends_with('/')) below += '/';
  below += name;
  return {storage, std::move(below)};
}

Status StatusOfPart(Status error, const Location& part, std::string_view consequence) {
  if (error.code() == StatusCode::kNotFound) return DataLoss("\"{}\" is missing{}", part, consequence);
  if (error.code() != StatusCode::kInvalidArgument) return error;
  return {StatusCode::kDataLoss, error.message()};
}

Stamp StampOf(const Location& location) {
  Result<ObjectInfo> info = location.Stat();
  return info.ok() ? std::move(info->stamp) : Stamp{"-"};
}

Result<Stamp> AnsweredStampOf(const Location& location) {
  Result<ObjectInfo> info = location.Stat();
  if (MayPass(info.status())) return std::move(info).status();
  return info.ok() ? std::move(info->stamp) : Stamp{"-"};
}

std::string IdentityOf(const Location& location) {
  Result<std::string> identity = location.storage->FolderIdentity(location.path);
  return identity.ok() ? *std::move(identity) : std::string();
}

}  // namespace quarry
