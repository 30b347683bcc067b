#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <utility>

#include "quarry/base/status.h"
#include "quarry/box.h"

namespace quarry::redistribute {

/// An MPI datatype that frees itself. Extents and sizes may exceed 2^31 bytes.
class Datatype {
 public:
  /// One sample of any fixed size; the same on both sides of a message.
  static Result<Datatype> Sample(std::size_t bytes);

  /// Samples x, y, z of this shape, `stride` bytes apart along each axis. Messages always hold samples in
  /// this order, whatever the order of axes in memory on either side.
  /// @param shape  each at least 1
  static Result<Datatype> Strided(const Index3& shape, const Index3& stride, std::size_t sample_bytes,
                                  const Datatype& sample);

  /// Combines several types, each at its address in memory; for messages from and to MPI_BOTTOM. Committed.
  static Result<Datatype> AtAddresses(std::span<const Datatype> types, std::span<const MPI_Aint> addresses);

  Datatype(Datatype&& other) noexcept
      : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)), owned_(std::exchange(other.owned_, false)) {}
  Datatype& operator=(Datatype&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~Datatype();

  MPI_Datatype get() const { return type_; }

 private:
  Datatype(MPI_Datatype type, bool owned) : type_(type), owned_(owned) {}

  MPI_Datatype type_;
  bool owned_;  ///< false for the types that MPI predefines
};

}  // namespace quarry::redistribute
