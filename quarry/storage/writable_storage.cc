#include "quarry/storage/writable_storage.h"

#include <algorithm>

#include "quarry/base/file.h"
#include "quarry/storage/directory_writer.h"

namespace quarry {
namespace {

/// A new file as an upload in parts; a small one is put at once.
class NewFileInParts final : public NewFile {
 public:
  NewFileInParts(const WritableStorage& storage, std::string path, std::uint64_t most)
      : storage_(storage), path_(std::move(path)), most_(most), part_bytes_(storage.PartBytes(most)) {
    part_.reserve(std::min(most, part_bytes_));
  }
  ~NewFileInParts() override {
    if (!upload_) return;
    const Status aborted = upload_->Abort();
    (void)aborted;  // RemoveLeftovers removes what is left
  }

  Status Append(ByteSpan bytes) override {
    while (!bytes.empty()) {
      if (part_.size() == part_bytes_) QUARRY_RETURN_IF_ERROR(PutPart());
      const std::size_t some = std::min<std::uint64_t>(bytes.size(), part_bytes_ - part_.size());
      part_.insert(part_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(some));
      bytes = bytes.subspan(some);
      size_ += some;
    }
    return Status::Ok();
  }

  std::uint64_t size() const override { return size_; }
  Status Sync() override { return Status::Ok(); }

  Status Finish() override {
    if (!upload_) return storage_.Put(path_, part_, PutCondition::IfAbsent());
    QUARRY_RETURN_IF_ERROR(PutPart());
    QUARRY_RETURN_IF_ERROR(upload_->Complete(size_, PutCondition::IfAbsent()));
    upload_.reset();
    return Status::Ok();
  }

 private:
  Status PutPart() {
    if (!upload_) {
      QUARRY_ASSIGN_OR_RETURN(upload_, storage_.BeginUpload(path_, most_));
    }
    QUARRY_RETURN_IF_ERROR(upload_->PutPart(parts_++, part_));
    part_.clear();
    return Status::Ok();
  }

  const WritableStorage& storage_;
  const std::string path_;
  const std::uint64_t most_;
  const std::uint64_t part_bytes_;
  Bytes part_;  ///< the last one, as far as it was appended
  std::uint64_t parts_ = 0;
  std::uint64_t size_ = 0;
  std::unique_ptr<Upload> upload_;  ///< null while one part has all
};

}  // namespace

Result<std::unique_ptr<NewFile>> WritableStorage::Create(const std::string& path, std::uint64_t most) const {
  return std::unique_ptr<NewFile>(std::make_unique<NewFileInParts>(*this, path, most));
}

std::uint64_t WritableStorage::MemoryOfFile(std::uint64_t most) const {
  return std::min(most, PartBytes(most));
}

Result<std::filesystem::path> WritableStorage::TemporaryFolder(const std::string&) const {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return InternalError("there is no folder for temporary files: {}; set TMPDIR", error.message());
  return folder;
}

WritableLocation::WritableLocation(const std::filesystem::path& path)
    : root(path), storage(std::make_shared<DirectoryWriter>()) {}

}  // namespace quarry
