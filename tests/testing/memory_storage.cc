#include "tests/testing/memory_storage.h"

#include <cerrno>
#include <cstring>
#include <mutex>

#include "quarry/base/file.h"

namespace quarry::testing {
namespace {

class MemoryObject final : public StoredObject {
 public:
  MemoryObject(std::string path, std::shared_ptr<const Bytes> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return bytes_->size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    const std::uint64_t there = bytes_->size() - std::min<std::uint64_t>(offset, bytes_->size());
    if (there < out.size()) return EndsEarly(path_, offset + there, out.size() - there);
    std::copy_n(bytes_->begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return Status::Ok();
  }

 private:
  const std::string path_;
  const std::shared_ptr<const Bytes> bytes_;
};

std::string ParentOf(const std::string& path) {
  const std::size_t end = path.rfind('/');
  return end == std::string::npos ? std::string() : path.substr(0, end);
}

/// The prefix of the names of everything in a folder.
std::string PrefixOf(const std::string& folder) { return folder.empty() ? folder : folder + "/"; }

}  // namespace

std::string MemoryStorage::AbsolutePath(const std::string& path) const {
  return Storage::AbsolutePath("/" + path).erase(0, 1);
}

Status MemoryStorage::Put(const std::string& path, Bytes bytes) {
  auto shared = std::make_shared<const Bytes>(std::move(bytes));
  const std::lock_guard lock(mutex_);
  return PutNode(AbsolutePath(path), std::move(shared));
}

Status MemoryStorage::MakeFolder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return PutNode(AbsolutePath(path), nullptr);
}

Status MemoryStorage::PutNode(const std::string& path, std::shared_ptr<const Bytes> bytes) {
  const auto known = nodes_.find(path);
  const bool is_folder = known != nodes_.end() && known->second.bytes == nullptr;
  if (is_folder && bytes == nullptr) return Status::Ok();
  if (is_folder || (known != nodes_.end() && bytes == nullptr))
    return InvalidArgument("\"{}\" is a {} already; choose another path", path,
                           is_folder ? "folder" : "file");
  QUARRY_RETURN_IF_ERROR(MakeFoldersAbove(path));
  nodes_[path] = {std::move(bytes), ++made_, 0};
  Touch(ParentOf(path));
  return Status::Ok();
}

Status MemoryStorage::MakeFoldersAbove(const std::string& path) {
  return path.empty() ? Status::Ok() : PutNode(ParentOf(path), nullptr);
}

void MemoryStorage::Touch(const std::string& parent) { ++nodes_[parent].changes; }

Status MemoryStorage::CopyFolder(const Location& from, const std::string& to) {
  QUARRY_RETURN_IF_ERROR(MakeFolder(to));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, from.List());
  for (const FolderEntry& entry : entries) {
    const Location source = from / entry.name;
    const std::string target = fmt::format("{}/{}", to, entry.name);
    if (entry.kind == ObjectKind::kFolder) {
      QUARRY_RETURN_IF_ERROR(CopyFolder(source, target));
    } else if (entry.kind == ObjectKind::kFile) {
      QUARRY_ASSIGN_OR_RETURN(Bytes bytes, source.ReadWhole(UINT64_MAX));
      QUARRY_RETURN_IF_ERROR(Put(target, std::move(bytes)));
    }
  }
  return Status::Ok();
}

Status MemoryStorage::Rename(const std::string& from, const std::string& to) {
  const std::string old_path = AbsolutePath(from);
  const std::string new_path = AbsolutePath(to);
  const std::lock_guard lock(mutex_);
  if (old_path.empty() || !nodes_.contains(old_path)) return ErrnoStatus(ENOENT, "rename", from);
  if (nodes_.contains(new_path) || new_path.starts_with(PrefixOf(old_path)))
    return InvalidArgument("\"{}\" cannot be renamed to \"{}\"; choose a path that is free", from, to);
  QUARRY_RETURN_IF_ERROR(MakeFoldersAbove(new_path));
  std::map<std::string, Node> moved;
  for (auto it = nodes_.lower_bound(old_path); it != nodes_.end();) {
    const bool inside = it->first == old_path || it->first.starts_with(PrefixOf(old_path));
    if (!inside && !it->first.starts_with(old_path)) break;
    auto next = std::next(it);
    if (inside) {
      auto node = nodes_.extract(it);
      node.key() = new_path + node.key().substr(old_path.size());
      moved.insert(std::move(node));
    }
    it = next;
  }
  nodes_.merge(moved);
  Touch(ParentOf(old_path));
  Touch(ParentOf(new_path));
  return Status::Ok();
}

Status MemoryStorage::Remove(const std::string& path) {
  const std::string absolute = AbsolutePath(path);
  const std::lock_guard lock(mutex_);
  if (absolute.empty() || nodes_.erase(absolute) == 0) return ErrnoStatus(ENOENT, "remove", path);
  const std::string prefix = PrefixOf(absolute);
  for (auto it = nodes_.lower_bound(prefix); it != nodes_.end() && it->first.starts_with(prefix);)
    it = nodes_.erase(it);
  Touch(ParentOf(absolute));
  return Status::Ok();
}

Result<MemoryStorage::Node> MemoryStorage::Find(const std::string& path, const char* action) const {
  const std::shared_lock lock(mutex_);
  const auto it = nodes_.find(AbsolutePath(path));
  if (it == nodes_.end()) return ErrnoStatus(ENOENT, action, path);
  return it->second;
}

Result<std::vector<FolderEntry>> MemoryStorage::List(const std::string& folder) const {
  QUARRY_ASSIGN_OR_RETURN(const Node node, Find(folder, "list"));
  if (node.bytes != nullptr) return ErrnoStatus(ENOTDIR, "list", folder);
  const std::string prefix = PrefixOf(AbsolutePath(folder));
  std::vector<FolderEntry> entries;
  const std::shared_lock lock(mutex_);
  for (auto it = nodes_.upper_bound(prefix); it != nodes_.end() && it->first.starts_with(prefix); ++it) {
    std::string name = it->first.substr(prefix.size());
    if (name.find('/') != std::string::npos) continue;
    entries.push_back({std::move(name), it->second.bytes ? ObjectKind::kFile : ObjectKind::kFolder});
  }
  return entries;
}

Result<ObjectInfo> MemoryStorage::Stat(const std::string& path) const {
  QUARRY_ASSIGN_OR_RETURN(const Node node, Find(path, "stat"));
  ObjectInfo info;
  info.kind = node.bytes ? ObjectKind::kFile : ObjectKind::kFolder;
  info.size = node.bytes ? node.bytes->size() : 0;
  info.identity = fmt::format("{}", node.identity);
  info.stamp.text = fmt::format("{}.{}", node.identity, node.changes);
  return info;
}

Result<std::shared_ptr<const StoredObject>> MemoryStorage::Open(const std::string& path) const {
  QUARRY_ASSIGN_OR_RETURN(Node node, Find(path, "open"));
  if (node.bytes == nullptr) return NotAFile(path, "folder");
  return std::shared_ptr<const StoredObject>(
      std::make_shared<const MemoryObject>(path, std::move(node.bytes)));
}

}  // namespace quarry::testing
