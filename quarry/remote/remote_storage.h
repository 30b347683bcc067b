#pragma once

#include <memory>
#include <string>

#include "quarry/remote/http_client.h"
#include "quarry/remote/place.h"
#include "quarry/storage/storage.h"

namespace quarry::remote {

/// A folder of a web server, or a bucket, as a storage: ranges are asked for side by side. Paths are URLs.
/// Every answer must be of the version that the first one was of.
class RemoteStorage final : public Storage {
 public:
  RemoteStorage(std::shared_ptr<HttpClient> client, std::unique_ptr<Place> place);

  /// @errors besides: kUnimplemented: a web server, which has no lists
  Result<std::vector<FolderEntry>> List(const std::string& folder) const override;
  Result<ObjectInfo> Stat(const std::string& path) const override;
  Result<std::string> FolderIdentity(const std::string& path) const override { return AbsolutePath(path); }
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override;
  Result<OpenedFile> OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                              Stamp* stamp) const override;
  Result<Bytes> ReadWhole(const std::string& path, std::uint64_t limit) const override;
  std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                            std::uint64_t content) const override;
  bool has_folders() const override { return place_->has_lists(); }
  bool folders_appear_whole() const override { return false; }
  ReadCosts costs() const override { return costs_; }
  bool ends_in_time() const override { return true; }
  std::chrono::milliseconds trust() const override { return std::chrono::seconds(2); }
  std::chrono::milliseconds stamp_tick() const override { return std::chrono::milliseconds(0); }
  std::string AbsolutePath(const std::string& path) const override;

 protected:
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  Result<HttpReply> Ask(const std::string& method, const std::string& path,
                        const std::function<void(HttpRequest*)>& with) const;

  const std::shared_ptr<HttpClient> client_;
  const std::unique_ptr<Place> place_;
  const ReadCosts costs_;
};

}  // namespace quarry::remote
