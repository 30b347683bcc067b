#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quarry/remote/http_client.h"
#include "quarry/remote/place.h"
#include "quarry/storage/writable_storage.h"

namespace quarry::remote {

/// A bucket of an S3 store, for writing. Objects appear at once; conditions are those of PUT (If-None-Match,
/// If-Match), and large objects are uploads in parts. A request that is repeated after its answer was lost
/// may be told that the object is there: callers compare what is there with what they have.
class S3Writer final : public WritableStorage {
 public:
  /// @param place  a bucket
  S3Writer(std::shared_ptr<HttpClient> client, std::shared_ptr<Place> place)
      : client_(std::move(client)), place_(std::move(place)) {}

  Status Put(const std::string& path, ByteSpan bytes, const PutCondition& condition) const override;
  Result<std::unique_ptr<Upload>> BeginUpload(const std::string& path, std::uint64_t most) const override;
  std::uint64_t PartBytes(std::uint64_t most) const override;
  Result<std::string> TagOf(const std::string& path) const override;
  Status Remove(const std::string& path) const override;
  Result<std::uint64_t> RemoveLeftovers(const std::string& folder) const override;
  bool renames_folders() const override { return false; }
  Status MakeFolder(const std::string&) const override { return Status::Ok(); }
  Status RenameFolder(const std::string& from, const std::string& to) const override;
  Status SyncFolder(const std::string&) const override { return Status::Ok(); }
  Result<std::shared_ptr<void>> LockFolder(const std::string&, const LockOptions&) const override {
    return std::shared_ptr<void>();
  }
  Result<bool> KeepsConditions(const std::string& folder) const override;

 private:
  const std::shared_ptr<HttpClient> client_;
  const std::shared_ptr<Place> place_;
};

}  // namespace quarry::remote
