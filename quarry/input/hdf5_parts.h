#pragma once

#define H5_USE_110_API  // the same functions from HDF5 1.10 on
#include <hdf5.h>

#include <string>
#include <utility>

#include "quarry/base/status.h"

/// Shared by the readers of HDF5 and of NetCDF-4, which is HDF5.
namespace quarry::input::internal {

/// An identifier of the library that closes itself.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Opens a file for reading without a lock: file systems without locks would refuse it. From then on the
/// library prints no errors: the code queries them where it needs them.
Handle OpenHdf5(const std::string& path);

/// Whether the parts of a dataset that lie in other files are there: sources of virtual ones, external files.
/// @param properties  of its creation
/// @param own         the file's own path: parts lie beside it
/// @param path        for messages
/// @errors kDataLoss: one is missing; kInvalidArgument: how many there are is open
Status CheckHdf5Parts(hid_t properties, const std::string& own, const std::string& path);

/// The same for a dataset of a file that another library reads. A dataset that HDF5 does not find has no
/// parts.
Status CheckHdf5Parts(const std::string& own, const std::string& dataset, const std::string& path);

}  // namespace quarry::input::internal
