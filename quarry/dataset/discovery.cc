#include "quarry/dataset/discovery.h"

#include <algorithm>
#include <map>

#include "quarry/base/utf8.h"
#include "quarry/dataset/dataset.h"

namespace quarry {

namespace fs = std::filesystem;

namespace {

std::string WithoutSuffix(std::string name) {
  constexpr std::string_view kSuffix = ".quarry";
  if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

/// Something called NAME.quarry that this user may not look into: it is listed by name, and asking for it says
/// what is wrong.
bool MayNotBeRead(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".quarry" &&
         fs::status(path / "dataset.json", error).type() == fs::file_type::none &&
         error == std::errc::permission_denied;
}

}  // namespace

Result<std::vector<FoundDataset>> FindDatasets(const fs::path& root) {
  std::error_code error;
  if (!fs::is_directory(root, error))
    return NotFound("there is no directory \"{}\"; give one that holds NAME.quarry datasets", root.string());
  if (IsDataset(root)) {
    const fs::path absolute = fs::absolute(root).lexically_normal();
    return std::vector<FoundDataset>{
        {WithoutSuffix((absolute.has_filename() ? absolute : absolute.parent_path()).filename().string()),
         root}};
  }
  std::vector<FoundDataset> found;
  if (fs::directory_iterator(root, error); error) return ErrnoStatus(error.value(), "list", root.string());
  const auto options =
      fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(root, options, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored) || !IsUtf8(it->path().filename().string())) continue;
    // A depth limit ends loops of symbolic links.
    constexpr int kMaxDepth = 16;
    if (it->path().filename().string().starts_with('.') || it.depth() >= kMaxDepth) {
      it.disable_recursion_pending();
    } else if (IsDataset(it->path()) || MayNotBeRead(it->path())) {
      found.push_back({WithoutSuffix(it->path().lexically_relative(root).generic_string()), it->path()});
      it.disable_recursion_pending();
    }
  }
  if (error) return InternalError("cannot list \"{}\": {}", root.string(), error.message());
  std::sort(found.begin(), found.end(),
            [](const FoundDataset& a, const FoundDataset& b) { return a.name < b.name; });
  // Where run42 and run42.quarry stand side by side, both keep their whole name.
  std::map<std::string, int> uses;
  for (const FoundDataset& dataset : found) ++uses[dataset.name];
  for (FoundDataset& dataset : found) {
    if (uses[dataset.name] > 1) dataset.name = dataset.path.lexically_relative(root).generic_string();
  }
  return found;
}

}  // namespace quarry
