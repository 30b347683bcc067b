#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/box.h"
#include "quarry/question.h"
#include "quarry/result.h"
#include "quarry/statistics_question.h"

/// Rules of questions, for all who take one and all who answer one.
namespace quarry::query {

/// The level that a target names; nothing: the plan chooses it.
std::optional<int> NamedLevel(const Target& target);

/// The box of a question on the grid with these samples.
Box BoxOn(const Box& domain, const std::optional<Box>& asked);

/// The first level of a question, possibly one that its grid does not have.
/// @param levels  of the grid
/// @param finest  the level of the target, or that with which the answer ends
int FirstLevelOn(int levels, const std::optional<int>& asked, int finest);

/// Level-0 samples between neighbours of an answer at one of its levels.
Index3 SpacingAt(const Target& target, int level);

/// Targets as options or arguments give them, one by one. Left out: not given.
struct GivenTargets {
  std::optional<int> level;
  std::optional<double> max_error;
  std::optional<std::uint64_t> max_bytes;
  std::optional<Index3> stride;
};

/// Names of these options or arguments, for the message.
struct TargetNames {
  std::string_view level;
  std::string_view max_error;
  std::string_view max_bytes;
  std::string_view stride;
};

/// The target that is given; without any, level 0.
/// @errors kInvalidArgument: more than one
Result<Target> MakeTarget(const GivenTargets& given, const TargetNames& names);

/// Checks what a request says beside its box and layers, which the plan checks.
/// @param field   that is asked for, for the message
/// @param levels  of its grid
/// @errors kInvalidArgument with the existing levels; an error negative or NaN; a stride below 1; a
/// first_level with a stride; a focus that is not finite; values that are no interval
Status CheckLevels(const ReadRequest& request, const std::string& field, int levels);

/// Checks what coding an answer may add.
/// @errors kInvalidArgument: a factor below 1, an error below 0, numbers that are not finite, both, or one
/// beside a target that is an error
Status CheckRecode(const Recode& recode, const Target& target);

/// Checks which fields and steps a series is of.
/// @errors kInvalidArgument: a stride of 0; an empty range; a field twice; both a field and fields
Status CheckSeries(const SeriesRequest& request);

/// Checks what a request for statistics says beside the samples.
/// @errors kInvalidArgument: a percentile outside 0 .. 100, too many of them or of bins, a range that is
/// empty or not finite, a scale without bins, logarithmic bins from 0 or below, quantile bins with a range
Status CheckStatistics(const StatisticsRequest& request);

/// Where a level has no samples, for lack of the requested values: [level samples], none empty.
/// @param left_out  level-0 samples, see AnswerHeader
std::vector<Box> LeftOutAt(const std::vector<Box>& left_out, const Index3& spacing);

/// Samples of an answer with this spacing between neighbours.
std::uint64_t SampleCount(const Box& box, const std::vector<Box>& left_out, const Index3& spacing);

}  // namespace quarry::query
