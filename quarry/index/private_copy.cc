#include "quarry/index/private_copy.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "quarry/base/file.h"

namespace quarry::index {
namespace {

Status CopyTo(const std::filesystem::path& path, const Location& folder, const SealedPiece& piece) {
  QUARRY_ASSIGN_OR_RETURN(WritableFile out, WritableFile::Create(path));
  return ReadSealedPiece(folder, piece, [&](ByteSpan chunk) { return out.Append(chunk); });
}

}  // namespace

Result<PrivateCopy> PrivateCopy::Map(const Location& folder, const SealedPiece& piece,
                                     const std::filesystem::path& path) {
  const auto map = [&]() -> Result<PrivateCopy> {
    QUARRY_RETURN_IF_ERROR(CopyTo(path, folder, piece));
    if (piece.bytes == 0) return PrivateCopy({}, {});
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    void* const memory =
        file.get() < 0 ? MAP_FAILED : ::mmap(nullptr, piece.bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return ErrnoStatus(errno, "map the copy of the index", path.string());
    return PrivateCopy({static_cast<const std::byte*>(memory), piece.bytes}, {});
  };
  Result<PrivateCopy> copy = map();
  std::error_code ignored;
  std::filesystem::remove(path, ignored);  // the mapping keeps it alive, and nothing else can reach it
  return copy;
}

Result<PrivateCopy> PrivateCopy::Load(const Location& folder, const SealedPiece& piece) {
  Bytes bytes;
  QUARRY_RETURN_IF_ERROR(ReadSealedPiece(folder, piece, [&](ByteSpan chunk) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
    return Status::Ok();
  }));
  return PrivateCopy({}, std::move(bytes));
}

PrivateCopy::PrivateCopy(PrivateCopy&& other) noexcept
    : mapped_(std::exchange(other.mapped_, {})), loaded_(std::move(other.loaded_)) {}

PrivateCopy::~PrivateCopy() {
  if (!mapped_.empty()) ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

}  // namespace quarry::index
