#pragma once

#include <mpi.h>

#include "writer/distribution/decomposition.h"
#include "writer/input/input.h"
#include "writer/pipeline/field_source.h"

namespace quarry::writer {

/// A dump in a file, of which every rank reads its share.
class FileSource final : public FieldSource {
 public:
  /// @param input  stays the caller's
  FileSource(const Input& input, int ranks, distribution::ReadingOrder order)
      : input_(input), ranks_(ranks), order_(order) {}

  distribution::Ownership Owned(const Box& region) const override {
    return distribution::ReadingOwnership(region, input_.info().unit, ranks_, order_);
  }
  Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) override;
  void Release() override { samples_ = Bytes(); }
  Index3 unit() const override { return input_.info().unit; }

 private:
  const Input& input_;
  const int ranks_;
  const distribution::ReadingOrder order_;
  Bytes samples_;  ///< of all boxes, one after the other
};

}  // namespace quarry::writer
