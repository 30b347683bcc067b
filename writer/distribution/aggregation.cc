#include "writer/distribution/aggregation.h"

#include <algorithm>

#include "quarry/base/status.h"
#include "writer/distribution/curve_cut.h"

namespace quarry::distribution {

Result<AggregationStrategy> ParseAggregation(const std::string& text) {
  if (text == "balanced") return AggregationStrategy::kBalanced;
  if (text == "equal") return AggregationStrategy::kEqual;
  return InvalidArgument("--aggregation \"{}\" is not known; give balanced or equal", text);
}

std::size_t UsableFiles(std::size_t patches, std::size_t files) {
  return std::max<std::size_t>(1, std::min(patches, files));
}

Assignment AssignEqual(std::uint64_t patches, std::size_t files) {
  Assignment begin(files + 1);
  for (std::size_t f = 0; f <= files; ++f) begin[f] = patches * f / files;
  return begin;
}

Assignment AssignPatches(std::span<const std::uint64_t> sizes, std::size_t files,
                         AggregationStrategy strategy) {
  if (strategy == AggregationStrategy::kEqual) return AssignEqual(sizes.size(), files);
  LocalLine line({CurvePiece(0, sizes)});
  return *CutCurve(&line, sizes.size(), files);  // a local line has no errors
}

}  // namespace quarry::distribution
