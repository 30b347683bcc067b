#pragma once

#include <mpi.h>

#include "quarry/input/input.h"
#include "writer/distribution/decomposition.h"
#include "writer/pipeline/field_source.h"

namespace quarry::writer {

/// A dump file; every rank reads its share.
class FileSource final : public FieldSource {
 public:
  /// @param input  owned by the caller
  /// @param patch  samples of a patch, for ReadingOrder::kDirect
  FileSource(const input::Input& input, int ranks, distribution::ReadingOrder order, const Index3& patch,
             std::optional<Wider> wider)
      : input_(input), ranks_(ranks), order_(order), patch_(patch), wider_(wider) {}

  std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const override {
    const bool direct = order_ == distribution::ReadingOrder::kDirect;
    const Index3 unit = direct ? patch_ : input_.info().unit;
    return std::make_unique<distribution::ReadingBoxes>(region, unit, ranks_, order_);
  }
  Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) override;
  bool in_pieces() const override { return true; }
  void Release() override { samples_ = Bytes(); }
  std::optional<Wider> wider() const override { return wider_; }
  Index3 unit() const override { return input_.info().unit; }

 private:
  const input::Input& input_;
  const int ranks_;
  const distribution::ReadingOrder order_;
  const Index3 patch_;
  const std::optional<Wider> wider_;
  Bytes samples_;  ///< samples of all loaded boxes, one after the other
};

}  // namespace quarry::writer
