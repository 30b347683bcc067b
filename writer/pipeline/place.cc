#include "writer/pipeline/place.h"

#include <filesystem>

#ifdef QUARRY_WITH_STORES
#include "quarry/remote/open_url.h"
#endif

namespace quarry::writer {

Result<WritableLocation> PlaceOf(const std::string& text, bool allow_http) {
#ifdef QUARRY_WITH_STORES
  QUARRY_ASSIGN_OR_RETURN(const auto storage, remote::WriterOf(text, allow_http));
  // Without a cache: a writer reads what it has to compare.
  QUARRY_ASSIGN_OR_RETURN(const Location root, remote::LocationOf(text, {allow_http, {""}}));
  return WritableLocation{root, storage};
#else
  (void)allow_http;
  if (text.find("://") == std::string::npos) return WritableLocation(std::filesystem::path(text));
  return Unimplemented(
      "\"{}\" is in a store, and this program was built without libcurl, OpenSSL or pugixml; write to a "
      "directory, and copy it (quarry cp)",
      text);
#endif
}

Result<bool> DatasetExists(const WritableLocation& place) {
  if (place.storage->renames_folders()) {
    std::error_code ignored;
    return std::filesystem::exists(place.root.path, ignored);
  }
  const Result<ObjectInfo> info = (place.root / "dataset.json").Stat();
  if (info.status().code() == StatusCode::kNotFound) return false;
  QUARRY_RETURN_IF_ERROR(info.status());
  return true;
}

}  // namespace quarry::writer
