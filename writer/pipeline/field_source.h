#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "quarry/base/status.h"
#include "writer/distribution/rank_boxes.h"
#include "writer/pipeline/exchange.h"

namespace quarry::writer {

/// Where the samples of a field come from: a file that the ranks read, or the memory of a simulation.
class FieldSource {
 public:
  virtual ~FieldSource() = default;

  /// The boxes of every rank in a region, in grid coordinates: disjoint, covering the region, and the same
  /// answer on every rank without communication. The source must outlive them.
  virtual std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const = 0;

  /// Makes samples of this rank available, until the next call or Release. Reuse the memory from call to
  /// call: fresh pages cost more than reading from a fast disk.
  /// @param boxes    some of those of this rank from Owned
  /// @returns        a view for each of them
  virtual Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) = 0;

  /// Whether Load is called for small pieces of boxes, one after the other: for a source that copies its
  /// samples. Otherwise it is called for all boxes of a region at once.
  virtual bool in_pieces() const { return false; }

  /// No more samples are needed for now.
  virtual void Release() {}

  /// Samples that are float64 in the source and stored as float32.
  struct Wider {
    std::optional<std::uint64_t> fill;  ///< bits of the source's fill value
  };
  /// Nothing if Load gives samples of the field's type.
  virtual std::optional<Wider> wider() const { return std::nullopt; }

  /// See InputInfo::unit.
  virtual Index3 unit() const { return {1, 1, 1}; }
};

}  // namespace quarry::writer
