#include "quarry/question.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "quarry/base/status.h"
#include "quarry/geometry/patch_grid.h"
#include "quarry/query/question_rules.h"

namespace quarry::query {
namespace {

/// CheckLevels checks the level, together with the first level.
Status CheckTarget(const Target& target) {
  const auto* within = std::get_if<WithinError>(&target);
  if (within != nullptr && !(within->error >= 0))
    return InvalidArgument("the largest error {} is not a number from 0 on", within->error);
  const auto* at = std::get_if<AtStride>(&target);
  if (at != nullptr &&
      !std::ranges::all_of(at->stride, [](std::int64_t n) { return n >= 1 && n <= kMaxStride; }))
    return InvalidArgument("the stride {} is not possible; give numbers from 1 to {}", ToString(at->stride),
                           kMaxStride);
  return Status::Ok();
}

}  // namespace

std::optional<int> NamedLevel(const Target& target) {
  const auto* at = std::get_if<AtLevel>(&target);
  return at != nullptr ? std::optional(at->level) : std::nullopt;
}

Box BoxOn(const Box& domain, const std::optional<Box>& asked) {
  Box box = asked.value_or(domain);
  for (std::size_t a = 0; a < 3; ++a) {
    if (box.end[a] == kGridEnd) box.end[a] = domain.end[a];
  }
  return box;
}

int FirstLevelOn(int levels, const std::optional<int>& asked, int finest) {
  if (asked == kCoarsestLevel) return std::max(finest, levels - 1);
  return asked.value_or(finest);
}

Index3 SpacingAt(const Target& target, int level) {
  if (const auto* at = std::get_if<AtStride>(&target)) return at->stride;
  const std::int64_t spacing = std::int64_t{1} << level;
  return {spacing, spacing, spacing};
}

Result<Target> MakeTarget(const GivenTargets& given, const TargetNames& names) {
  Target target;
  std::vector<std::string_view> of_given;
  const auto take = [&](const auto& wanted, std::string_view name) {
    target = wanted;
    of_given.push_back(name);
  };
  if (given.level) take(AtLevel{*given.level}, names.level);
  if (given.max_error) take(WithinError{*given.max_error}, names.max_error);
  if (given.max_bytes) take(WithinBytes{*given.max_bytes}, names.max_bytes);
  if (given.stride) take(AtStride{*given.stride}, names.stride);
  if (of_given.size() <= 1) return target;
  return InvalidArgument("only one of {} can be given", fmt::join(of_given, " and "));
}

Status CheckLevels(const ReadRequest& request, const std::string& field, int levels) {
  QUARRY_RETURN_IF_ERROR(CheckTarget(request.target));
  if (std::holds_alternative<AtStride>(request.target) && request.first_level)
    return InvalidArgument("a stride is answered by one level; leave the first level out");
  if (request.focus &&
      !std::all_of(request.focus->begin(), request.focus->end(), [](double x) { return std::isfinite(x); }))
    return InvalidArgument("the focus is not a point; give three finite numbers, in level-0 samples");
  if (request.values && !(request.values->low <= request.values->high))
    return InvalidArgument("{}:{} is not a range of values; give two numbers, the smaller one first",
                           request.values->low, request.values->high);
  const int level = NamedLevel(request.target).value_or(0);
  const int first = FirstLevelOn(levels, request.first_level, level);
  if (level >= 0 && first >= level && first < levels) return Status::Ok();
  const std::string asked =
      first == level ? fmt::format("level {}", level) : fmt::format("levels {} to {}", first, level);
  return InvalidArgument(
      "{} of field \"{}\" cannot be read; it has levels 0 (full resolution) to {}, delivered coarse to fine",
      asked, field, levels - 1);
}

Status CheckRecode(const Recode& recode, const Target& target) {
  const bool possible =
      std::isfinite(recode.factor) && std::isfinite(recode.error) && recode.factor >= 1 && recode.error >= 0;
  if (!possible)
    return InvalidArgument(
        "coding within {} times the error, or {} more, is not possible; give a factor "
        "from 1 on, or an error from 0 on",
        recode.factor, recode.error);
  if (recode == Recode()) return Status::Ok();
  if (recode.factor != 1 && recode.error != 0)
    return InvalidArgument("a factor and an error of coding: give only one of them");
  if (!std::holds_alternative<WithinError>(target)) return Status::Ok();
  return InvalidArgument(
      "a largest error is for stored samples and coding together; leave the error of coding out");
}

Status CheckSeries(const SeriesRequest& request) {
  if (!request.fields.empty() && !request.read.field.empty())
    return InvalidArgument("a field and several fields: give only one of them");
  if (request.fields.size() > kMaxAnswers)
    return InvalidArgument("{} fields are asked for; ask for at most {} at a time", request.fields.size(),
                           kMaxAnswers);
  std::set<std::string_view> names;
  for (const std::string& field : request.fields) {
    if (!names.insert(field).second)
      return InvalidArgument("field \"{}\" is asked for twice; name each field once", field);
  }
  if (!request.steps) return Status::Ok();
  const StepRange& steps = *request.steps;
  if (request.read.step) return InvalidArgument("a step and a range of steps: give only one of them");
  if (steps.stride > 0 && (!steps.end || *steps.end > steps.begin)) return Status::Ok();
  return InvalidArgument(
      "the range of steps from {} to {} by {} is empty; it is half-open, and the stride 1 or more",
      steps.begin, steps.end ? std::to_string(*steps.end) : "the last", steps.stride);
}

Cost& Cost::operator+=(const Cost& other) {
  patches += other.patches;
  bytes += other.bytes;
  bytes_read += other.bytes_read;
  reads += other.reads;
  reply_bytes += other.reply_bytes;
  coded_bytes += other.coded_bytes;
  return *this;
}

std::vector<Box> LeftOutAt(const std::vector<Box>& left_out, const Index3& spacing) {
  std::vector<Box> boxes;
  for (const Box& box : left_out) {
    if (const Box extent = SpacedBox(box, spacing); !extent.empty()) boxes.push_back(extent);
  }
  return boxes;
}

std::uint64_t SampleCount(const Box& box, const std::vector<Box>& left_out, const Index3& spacing) {
  std::int64_t samples = SpacedBox(box, spacing).volume();
  for (const Box& part : LeftOutAt(left_out, spacing)) samples -= part.volume();
  return static_cast<std::uint64_t>(samples);
}

}  // namespace quarry::query
