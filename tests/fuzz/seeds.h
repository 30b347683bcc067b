#pragma once

#include <fstream>
#include <string>

#include "quarry/base/endian.h"

namespace quarry::fuzz {

/// A folder of inputs for one target.
class Corpus {
 public:
  Corpus(const std::string& folder, const std::string& target);

  void Add(const std::string& name, ByteSpan bytes);
  void Add(const std::string& name, const std::string& text) { Add(name, std::as_bytes(std::span(text))); }
  bool ok() const { return !failed_; }

 private:
  std::string folder_;
  bool failed_ = false;
};

/// Requests and answers, for the targets "wire", "answer" and "service".
bool AddMessages(const std::string& folder);

/// Requests over HTTP, for "http".
bool AddRequests(const std::string& folder);

/// Foreign files, for "vti", "npy", "tiff", "netcdf_classic", "tokens", "config" and "seal".
bool AddFiles(const std::string& folder);

/// Whole datasets and changes to an index, for "dataset" and "index".
bool AddDatasets(const std::string& folder);

}  // namespace quarry::fuzz
