#pragma once

#include <filesystem>
#include <string_view>

#include "quarry/storage/storage.h"

namespace quarry {

/// A path in a storage, which readers of datasets take. A path alone means a file of the operating system.
/// Prints as its path.
struct Location {
  Location() : Location(std::string()) {}
  Location(std::string path);                   // NOLINT: implicit, for Dataset::Open("run42.quarry")
  Location(const char* path);                   // NOLINT
  Location(const std::filesystem::path& path);  // NOLINT
  Location(std::shared_ptr<const Storage> in, std::string at) : storage(std::move(in)), path(std::move(at)) {}

  std::shared_ptr<const Storage> storage;
  std::string path;

  /// Below a folder.
  friend Location operator/(const Location& folder, std::string_view name) { return folder.Below(name); }

  /// The last name of the path.
  std::string name() const;

  Result<std::vector<FolderEntry>> List() const { return storage->List(path); }
  Result<std::vector<FolderEntry>> ListNames() const { return storage->ListNames(path); }
  Result<ObjectInfo> Stat() const { return storage->Stat(path); }
  Result<std::shared_ptr<const StoredObject>> Open() const { return storage->Open(path); }
  /// A file whose size a manifest tells, without a call. Does not outlive the storage.
  std::shared_ptr<const StoredObject> Refer(std::uint64_t size, std::uint64_t content) const {
    return storage->Refer(path, size, content);
  }
  Result<OpenedFile> OpenWith(FileEnd end, std::uint64_t most, Stamp* stamp) const {
    return storage->OpenWith(path, end, most, stamp);
  }
  Result<Bytes> ReadWhole(std::uint64_t limit) const { return storage->ReadWhole(path, limit); }
  /// The same as text.
  Result<std::string> ReadText(std::uint64_t limit) const;

 private:
  Location Below(std::string_view name) const;
};

/// The error for a part of a dataset that cannot be opened: that it is missing is damage, and so is a folder,
/// FIFO or device in its place.
/// @param consequence  behind "is missing"
Status StatusOfPart(Status error, const Location& part, std::string_view consequence);

/// The stamp of the object there; "-" if there is none.
Stamp StampOf(const Location& location);
/// The same where the storage answers. @errors those that may pass, see MayPass
Result<Stamp> AnsweredStampOf(const Location& location);

/// The identity of the folder there; empty if it cannot be told.
std::string IdentityOf(const Location& location);

}  // namespace quarry

template <>
struct fmt::formatter<quarry::Location> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const quarry::Location& location, Context& context) const {
    return fmt::formatter<std::string_view>::format(location.path, context);
  }
};
