#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "quarry/storage/location.h"

namespace quarry::testing {

inline void AddFiles(const Location& folder, const std::string& prefix, std::map<std::string, Bytes>* files) {
  const auto entries = folder.List();
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  for (const FolderEntry& entry : *entries) {
    const std::string path = prefix + entry.name;
    if (entry.kind == ObjectKind::kFolder) {
      AddFiles(folder / entry.name, path + "/", files);
      continue;
    }
    const auto bytes = (folder / entry.name).ReadWhole(1 << 30);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    files->emplace(path, *bytes);
  }
}

/// The bytes of all files of a storage below a folder, by their paths from there.
inline std::map<std::string, Bytes> FilesOf(const Location& folder) {
  std::map<std::string, Bytes> files;
  AddFiles(folder, "", &files);
  return files;
}

}  // namespace quarry::testing
