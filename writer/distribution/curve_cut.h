#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "quarry/base/status.h"
#include "writer/distribution/aggregation.h"
#include "writer/distribution/curve_piece.h"

namespace quarry::distribution {

/// The pieces of a curve in a row, wherever they are: in one process, or each on a rank of its own. What one
/// method returns is the same on every rank.
class PieceLine {
 public:
  /// Continues numbers through a piece.
  using Step = std::function<void(const CurvePiece& piece, std::span<std::uint64_t> state)>;

  virtual ~PieceLine() = default;
  virtual std::size_t pieces() const = 0;
  /// Takes `state` through all pieces, from the first to the last. Afterwards every rank has the result.
  virtual Status Forward(std::span<std::uint64_t> state, const Step& step) = 0;
  /// The same from the last piece to the first.
  virtual Status Backward(std::span<std::uint64_t> state, const Step& step) = 0;
  /// Adds up what the steps of each rank have left in `numbers`.
  virtual Status AddUp(std::span<std::uint64_t> numbers) = 0;
};

/// All pieces in this process.
class LocalLine final : public PieceLine {
 public:
  explicit LocalLine(std::vector<CurvePiece> pieces) : pieces_(std::move(pieces)) {}

  std::size_t pieces() const override { return pieces_.size(); }
  Status Forward(std::span<std::uint64_t> state, const Step& step) override;
  Status Backward(std::span<std::uint64_t> state, const Step& step) override;
  Status AddUp(std::span<std::uint64_t>) override { return Status::Ok(); }

 private:
  std::vector<CurvePiece> pieces_;
};

/// Cuts a curve like AssignPatches, `balanced`: the cut depends on the sizes alone, not on the pieces. The
/// bound comes from a search in which all pieces count the runs for some limits at a time; the longest
/// suffixes that fit the later files from a pass backward; the cut itself from a pass forward.
/// @param patches  of the curve
/// @param files    1 to patches
/// @errors those of the line
/// @complexity messages: a few for each piece; memory: two numbers for each file
Result<Assignment> CutCurve(PieceLine* line, std::uint64_t patches, std::size_t files);

}  // namespace quarry::distribution
