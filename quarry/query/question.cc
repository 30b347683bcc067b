#include "quarry/query/question.h"

namespace quarry::query {

Status CheckLevels(const ReadRequest& request, int levels) {
  if (request.max_error && !(*request.max_error >= 0))
    return InvalidArgument("the largest error {} is not a number from 0 on", *request.max_error);
  const int first = request.first_level.value_or(request.level);
  if (request.level >= 0 && first >= request.level && first < levels) return Status::Ok();
  const std::string asked = first == request.level ? fmt::format("level {}", request.level)
                                                   : fmt::format("levels {} to {}", first, request.level);
  return InvalidArgument(
      "{} cannot be had; this dataset has levels 0 (full resolution) to {}, delivered coarse to fine", asked,
      levels - 1);
}

}  // namespace quarry::query
