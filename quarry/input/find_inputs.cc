#include "quarry/input/find_inputs.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "quarry/base/natural_order.h"
#include "quarry/base/split.h"
#include "quarry/input/file_kind.h"
#include "quarry/input/formats.h"
#include "quarry/storage/location.h"

namespace quarry::input {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTiff = "tiff";

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Takes "NAME:VARIABLE" apart at each colon, from the last on, and the whole first.
/// @param take  is given NAME and ":VARIABLE". @returns whether it has taken them
template <typename Take>
Result<bool> AtEachColon(const std::string& text, const Take& take) {
  for (std::size_t end = text.size(); end != std::string::npos && end > 0; end = text.rfind(':', end - 1)) {
    QUARRY_ASSIGN_OR_RETURN(const bool taken, take(text.substr(0, end), text.substr(end)));
    if (taken) return true;
  }
  return false;
}

class FoundNames {
 public:
  ~FoundNames() { ::globfree(&names_); }
  FoundNames() = default;
  FoundNames(const FoundNames&) = delete;
  FoundNames& operator=(const FoundNames&) = delete;

  /// The names that match a pattern, in natural order.
  Result<std::vector<std::string>> Match(const std::string& pattern) {
    const int error = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &names_);
    if (error == GLOB_NOMATCH) return std::vector<std::string>();
    if (error == GLOB_NOSPACE) return ResourceExhausted("no memory for the names that match \"{}\"", pattern);
    if (error != 0)
      return InternalError("cannot list the folders of \"{}\"; check their permissions", pattern);
    std::vector<std::string> found(names_.gl_pathv, names_.gl_pathv + names_.gl_pathc);
    std::ranges::sort(found, NaturalLess);
    return found;
  }

 private:
  glob_t names_{};
};

class Finder {
 public:
  explicit Finder(const InputOptions& options) : options_(options) {}

  /// @param place  list and line; empty: an argument
  Status Add(const std::string& text, const std::string& place) {
    const std::string file = internal::ParseInputName(text).file;
    if (Exists(file) && !IsFolder(file)) return AddPath(text, place);
    const auto folder = [&](const std::string& name, const std::string& variable) -> Result<bool> {
      if (!IsFolder(name)) return false;
      QUARRY_RETURN_IF_ERROR(AddFolder(name, variable, place));
      return true;
    };
    QUARRY_ASSIGN_OR_RETURN(bool added, AtEachColon(text, folder));
    const bool is_pattern = text.find_first_of("*?[") != std::string::npos;
    if (added || !is_pattern || IsStack(text)) return added ? Status::Ok() : AddPath(text, place);
    const auto pattern = [&](const std::string& name, const std::string& variable) {
      return AddMatches(name, variable, place);
    };
    QUARRY_ASSIGN_OR_RETURN(added, AtEachColon(text, pattern));
    if (added) return Status::Ok();
    return NotFound("there is no file \"{}\", and as a pattern it matches none; give names of files", text);
  }

  Status AddList(const std::string& list) {
    constexpr std::uint64_t kLargest = 256 << 20;
    const Result<std::string> text = Location(list).ReadText(kLargest);
    if (!text.ok() && Exists("@" + list)) {
      return NotFound("there is no list \"{0}\"; for the file \"@{0}\" give \"./@{0}\"", list);
    }
    QUARRY_RETURN_IF_ERROR(text.status());
    if (text->find('\0') != std::string::npos)
      return InvalidArgument("\"{}\" is no list of files; a list has a path on each line", list);
    const std::size_t before = found_.size();
    std::size_t number = 0;
    for (std::string_view line : Split(*text, '\n')) {
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with('#') || line.find_first_not_of(" \t") == std::string_view::npos) continue;
      const std::string place = fmt::format("\"{}\", line {}", list, number);
      QUARRY_RETURN_IF_ERROR(AddLine(list, std::string(line), place).Annotate(place));
    }
    if (found_.size() > before) return Status::Ok();
    return InvalidArgument("the list \"{}\" names no input; write a path on each line", list);
  }

  std::vector<FoundInput> Take() && { return std::move(found_); }

 private:
  Status AddLine(const std::string& list, const std::string& line, const std::string& place) {
    if (line.starts_with('@')) {
      return InvalidArgument(
          "\"{0}\" is a list, and a list cannot name another; give both as arguments, or \"./{0}\" for a "
          "file",
          line);
    }
    const fs::path beside = fs::path(list).parent_path() / line;
    const auto is_missing = [](const std::string& path) {
      return !Exists(internal::ParseInputName(path).file);
    };
    if (is_missing(line) && !is_missing(beside.string())) {
      return NotFound(
          "there is no \"{}\", but \"{}\": paths in a list count from the current folder, as on the command "
          "line; start the program in the folder of the list, or write paths from here",
          line, beside.string());
    }
    return Add(line, place);
  }

  Status AddPath(std::string path, const std::string& place, std::string warning = "") {
    found_.push_back({std::move(path), place, std::move(warning)});
    return Status::Ok();
  }

  /// Whether a pattern is one input, whose images the reader finds.
  bool IsStack(const std::string& pattern) const {
    return options_.format.empty() ? internal::FormatOfEnding(pattern) == kTiff : options_.format == kTiff;
  }

  Result<bool> AddMatches(const std::string& pattern, const std::string& variable, const std::string& place) {
    FoundNames names;
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::string> found, names.Match(pattern));
    for (const std::string& name : found) {
      QUARRY_RETURN_IF_ERROR(IsFolder(name) ? AddFolder(name, variable, place)
                                            : AddPath(name + variable, place));
    }
    return !found.empty();
  }

  /// The files of a folder; the folder itself where a reader takes it whole, or says why it cannot be read.
  Status AddFolder(const std::string& folder, const std::string& variable, const std::string& place) {
    if (options_.format == kTiff || internal::FindFolderKind(folder))
      return AddPath(folder + variable, place);
    QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, Location(folder).List());
    std::vector<std::string> files;
    std::vector<std::string> left_out;
    bool images = false;
    for (const FolderEntry& entry : entries) {
      if (entry.name.starts_with('.')) continue;
      if (entry.kind == ObjectKind::kFile) files.push_back((fs::path(folder) / entry.name).string());
      if (entry.kind != ObjectKind::kFile) left_out.push_back(entry.name);
      images = images || internal::FormatOfEnding(entry.name) == kTiff;
    }
    if (files.empty() || (images && options_.format.empty())) return AddPath(folder + variable, place);
    std::ranges::sort(files, NaturalLess);
    std::string warning;
    if (left_out.size() == 1)
      warning = fmt::format("\"{}\" beside it is no file, and is left out", left_out.front());
    if (left_out.size() > 1) {
      warning = fmt::format("\"{}\" and {} more beside it are no files, and are left out", left_out.front(),
                            left_out.size() - 1);
    }
    for (const std::string& file : files)
      QUARRY_RETURN_IF_ERROR(AddPath(file + variable, place, std::exchange(warning, "")));
    return Status::Ok();
  }

  const InputOptions& options_;
  std::vector<FoundInput> found_;
};

}  // namespace

Result<std::vector<FoundInput>> FindInputs(const std::vector<std::string>& arguments,
                                           const InputOptions& options) {
  Finder finder(options);
  for (const std::string& argument : arguments) {
    const bool is_list = argument.size() > 1 && argument.starts_with('@');
    QUARRY_RETURN_IF_ERROR(is_list ? finder.AddList(argument.substr(1)) : finder.Add(argument, ""));
  }
  return std::move(finder).Take();
}

}  // namespace quarry::input
