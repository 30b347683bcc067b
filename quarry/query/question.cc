#include "quarry/query/question.h"

namespace quarry::query {

Status CheckLevels(const ReadRequest& request, int levels) {
  const int first = request.first_level.value_or(request.level);
  if (request.level >= 0 && first >= request.level && first < levels) return Status::Ok();
  const std::string asked = first == request.level ? fmt::format("level {}", request.level)
                                                   : fmt::format("levels {} to {}", first, request.level);
  return InvalidArgument(
      "{} cannot be had; this dataset has levels 0 (full resolution) to {}, delivered coarse to fine", asked,
      levels - 1);
}

}  // namespace quarry::query
