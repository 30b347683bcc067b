#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "quarry/base/units.h"
#include "quarry/disk_cache/disk_cache.h"
#include "tools/quarry/command.h"

namespace quarry::tools {
namespace {

struct CacheOptions {
  std::string folder;
  std::string size;
  bool clear = false;
  bool json = false;
};

/// [bytes] of each dataset; of an object outside of one by its own URL.
std::map<std::string, std::uint64_t> BytesOfDatasets(const disk_cache::Contents& contents) {
  constexpr std::string_view kSuffix = ".quarry/";
  std::map<std::string, std::uint64_t> datasets;
  for (const disk_cache::Contents::Object& object : contents.objects) {
    const std::size_t at = object.url.find(kSuffix);
    const std::size_t end = at == std::string::npos ? object.url.size() : at + kSuffix.size() - 1;
    datasets[object.url.substr(0, end)] += object.bytes;
  }
  return datasets;
}

void PrintContents(const std::string& folder, const disk_cache::Contents& contents, bool as_json) {
  const auto datasets = BytesOfDatasets(contents);
  if (as_json) {
    nlohmann::ordered_json json = {{"folder", folder},
                                   {"bytes", contents.bytes},
                                   {"files", contents.files},
                                   {"objects", contents.objects.size()},
                                   {"datasets", nlohmann::json::array()}};
    for (const auto& [url, bytes] : datasets) json["datasets"].push_back({{"url", url}, {"bytes", bytes}});
    PrintOut("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  Print("{}: {} of {} objects in {} files\n", folder, FormatBytes(contents.bytes), contents.objects.size(),
        contents.files);
  for (const auto& [url, bytes] : datasets) Print("  {}  {}\n", url, FormatBytes(bytes));
}

Result<int> Cache(const CacheOptions& options) {
  const std::string folder = options.folder.empty() ? disk_cache::DiskCache::FolderOf({}) : options.folder;
  if (folder.empty()) return InvalidArgument("no cache is named; give its folder, or set QUARRY_CACHE");
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return NotFound("\"{}\" is no folder", folder);
  QUARRY_ASSIGN_OR_RETURN(const auto cache, disk_cache::DiskCache::At(folder, 0));
  if (options.clear) QUARRY_RETURN_IF_ERROR(cache->Trim(0));
  if (!options.size.empty()) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t most, ParseBytes(options.size));
    QUARRY_RETURN_IF_ERROR(cache->Trim(most));
  }
  QUARRY_ASSIGN_OR_RETURN(const disk_cache::Contents contents, cache->List());
  PrintContents(folder, contents, options.json);
  return 0;
}

}  // namespace

Command DeclareCache(command_line::Parser* app) {
  auto options = std::make_shared<CacheOptions>();
  app->AddOption("DIR", &options->folder, "folder of the cache; default: the variable QUARRY_CACHE").Path();
  app->AddFlag("--clear", &options->clear, "remove all that is kept");
  app->AddOption("--size", &options->size,
                 "remove what was not used for longest until at most this is left, for example 1GiB")
      .Excludes("--clear");
  app->AddFlag("--json", &options->json, "print one JSON object");
  app->SetFooter("Example:\n  quarry cache ~/.cache/quarry --size 5GiB");
  return [options] { return Cache(*options); };
}

}  // namespace quarry::tools
