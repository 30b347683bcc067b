#include "quarry/base/file.h"

// Errors about files, in any storage.
namespace quarry {

Status NotAFile(std::string_view path, std::string_view what) {
  return InvalidArgument("\"{}\" is a {} where a file should be; replace it, or give the path of a file",
                         path, what);
}

Status EndsEarly(std::string_view path, std::uint64_t end, std::uint64_t missing) {
  return DataLoss("\"{}\" ends at byte {}, {} bytes too early; the file is truncated", path, end, missing);
}

Status CheckFileSize(std::string_view path, std::uint64_t size, std::uint64_t limit) {
  if (size <= limit) return Status::Ok();
  return DataLoss("\"{}\" has {} bytes, more than the {} that such a file can have; it is damaged", path,
                  size, limit);
}

}  // namespace quarry
