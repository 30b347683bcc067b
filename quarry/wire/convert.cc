#include "quarry/wire/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quarry/format/proto_convert.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::wire {

namespace {

/// kCoarsestLevel in a message.
constexpr std::uint32_t kCoarsest = std::numeric_limits<std::uint32_t>::max();

/// Sets the target of a message.
struct SetTarget {
  pb::ReadQuery* out;

  void operator()(const query::AtLevel& at) const { out->set_level(static_cast<std::uint32_t>(at.level)); }
  void operator()(const query::WithinError& within) const { out->set_max_error(within.error); }
  void operator()(const query::WithinBytes& within) const { out->set_max_bytes(within.bytes); }
  void operator()(const query::AtStride& at) const {
    for (const std::int64_t samples : at.stride)
      out->mutable_stride()->add_samples(static_cast<std::uint32_t>(samples));
  }
};

pb::ReadQuery ToProto(const std::string& dataset, const query::ReadRequest& request) {
  pb::ReadQuery out;
  out.set_dataset(dataset);
  out.set_field(request.field);
  if (request.step) out.set_step(*request.step);
  if (request.box) *out.mutable_box() = format::ToProto(*request.box);
  std::visit(SetTarget{&out}, request.target);
  if (request.first_level)
    out.set_first_level(request.first_level == query::kCoarsestLevel
                            ? kCoarsest
                            : static_cast<std::uint32_t>(*request.first_level));
  if (request.layer) out.set_layer(static_cast<std::uint32_t>(*request.layer));
  if (request.first_layer) out.set_first_layer(static_cast<std::uint32_t>(*request.first_layer));
  out.set_strict(!request.allow_damage);  // the message has the opposite word, and keeps it
  if (request.focus) out.mutable_focus()->Add(request.focus->begin(), request.focus->end());
  if (request.values) {
    out.mutable_values()->set_low(request.values->low);
    out.mutable_values()->set_high(request.values->high);
  }
  return out;
}

/// The number of a level or layer. The planner refuses every number above those of the dataset alike, and
/// names them.
int NumberOf(std::uint32_t value) { return static_cast<int>(std::min<std::uint32_t>(value, 1000)); }

Result<query::Target> TargetOf(const pb::ReadQuery& query) {
  switch (query.target_case()) {
    case pb::ReadQuery::kMaxError:
      return query::Target(query::WithinError{query.max_error()});
    case pb::ReadQuery::kMaxBytes:
      return query::Target(query::WithinBytes{query.max_bytes()});
    case pb::ReadQuery::kStride:
      break;
    case pb::ReadQuery::kLevel:
    case pb::ReadQuery::TARGET_NOT_SET:
      return query::Target(query::AtLevel{NumberOf(query.level())});
  }
  const pb::Stride& stride = query.stride();
  if (stride.samples_size() != 3)
    return InvalidArgument("the stride has {} parts; give three, x, y, z", stride.samples_size());
  return query::Target(query::AtStride{{stride.samples(0), stride.samples(1), stride.samples(2)}});
}

/// The question of each field and step.
Result<query::ReadRequest> QuestionOf(const pb::ReadQuery& query) {
  query::ReadRequest request;
  request.field = query.field();
  if (query.has_step()) request.step = query.step();
  if (query.has_box()) {
    const Result<Box> box = format::FromProto(query.box());
    if (!box.ok())
      return InvalidArgument("{}; give begin and end with three values each", box.status().message());
    request.box = *box;
  }
  QUARRY_ASSIGN_OR_RETURN(request.target, TargetOf(query));
  request.allow_damage = !query.strict();
  if (query.focus_size() == 3) {
    request.focus = {query.focus(0), query.focus(1), query.focus(2)};
  } else if (query.focus_size() != 0) {
    return InvalidArgument("the focus has {} coordinates; give three, x, y, z", query.focus_size());
  }
  if (query.has_first_level())
    request.first_level =
        query.first_level() == kCoarsest ? query::kCoarsestLevel : NumberOf(query.first_level());
  if (query.has_layer()) request.layer = NumberOf(query.layer());
  if (query.has_first_layer()) request.first_layer = NumberOf(query.first_layer());
  if (query.has_values()) request.values = {query.values().low(), query.values().high()};
  return request;
}

}  // namespace

pb::ReadQuery ToProto(const std::string& dataset, const query::SeriesRequest& request) {
  pb::ReadQuery out = ToProto(dataset, request.read);
  out.mutable_fields()->Add(request.fields.begin(), request.fields.end());
  if (request.steps) {
    out.mutable_steps()->set_begin(request.steps->begin);
    if (request.steps->end) out.mutable_steps()->set_end(*request.steps->end);
    out.mutable_steps()->set_stride(request.steps->stride);
  }
  return out;
}

Result<query::SeriesRequest> FromProto(const pb::ReadQuery& query) {
  query::SeriesRequest request;
  QUARRY_ASSIGN_OR_RETURN(request.read, QuestionOf(query));
  if (static_cast<std::uint64_t>(query.fields_size()) > query::kMaxAnswers)
    return InvalidArgument("{} fields are asked for; ask for at most {} at a time", query.fields_size(),
                           query::kMaxAnswers);
  request.fields.assign(query.fields().begin(), query.fields().end());
  if (query.has_steps()) {
    request.steps.emplace();
    request.steps->begin = query.steps().begin();
    if (query.steps().has_end()) request.steps->end = query.steps().end();
    request.steps->stride = std::max<std::uint64_t>(1, query.steps().stride());
  }
  return request;
}

query::Recode RecodeOf(const pb::ReadRequest& request) {
  query::Recode recode;
  if (request.has_recode_factor()) recode.factor = request.recode_factor();
  if (request.has_recode_error()) recode.error = request.recode_error();
  return recode;
}

void SetRecode(const query::Recode& recode, pb::ReadRequest* request) {
  if (recode.factor != 1) request->set_recode_factor(recode.factor);
  if (recode.error != 0) request->set_recode_error(recode.error);
}

pb::Path ToProto(const query::Path& path) {
  pb::Path out;
  out.set_round_trip(path.round_trip);
  out.set_rate(path.rate);
  out.set_threads(static_cast<std::uint32_t>(path.threads));
  return out;
}

Result<query::Path> FromProto(const pb::Path& path) {
  const bool possible = std::isfinite(path.round_trip()) && path.round_trip() >= 0 &&
                        std::isfinite(path.rate()) && path.rate() >= 0;
  if (!possible)
    return InvalidArgument("a path of {} seconds and {} bytes a second is not possible", path.round_trip(),
                           path.rate());
  constexpr std::uint32_t kMostThreads = 1024;
  return query::Path{path.round_trip(), path.rate(),
                     static_cast<int>(std::clamp<std::uint32_t>(path.threads(), 1, kMostThreads))};
}

pb::EncodingChoice ToProto(const query::EncodingChoice& choice) {
  pb::EncodingChoice out;
  out.set_encoding(static_cast<pb::Encoding>(choice.encoding));
  *out.mutable_path() = ToProto(choice.path);
  for (const query::EncodingPrice& price : choice.prices) {
    pb::EncodingPrice* const added = out.add_prices();
    added->set_encoding(static_cast<pb::Encoding>(price.encoding));
    added->set_seconds(price.seconds);
    added->set_work(price.work);
  }
  return out;
}

Result<query::EncodingChoice> FromProto(const pb::EncodingChoice& choice) {
  query::EncodingChoice out;
  constexpr int kMostPrices = 16;
  const bool known = pb::Encoding_IsValid(choice.encoding()) && choice.prices_size() <= kMostPrices;
  const Result<query::Path> path = FromProto(choice.path());
  if (!known || !path.ok())
    return InternalError("the server chooses among encodings or for a path that this program does not know");
  out.encoding = static_cast<query::AnswerEncoding>(choice.encoding());
  out.path = *path;
  for (const pb::EncodingPrice& price : choice.prices()) {
    // A newer server may have other encodings to choose from.
    if (pb::Encoding_IsValid(price.encoding()) && std::isfinite(price.seconds()) &&
        std::isfinite(price.work()))
      out.prices.push_back(
          {static_cast<query::AnswerEncoding>(price.encoding()), price.seconds(), price.work()});
  }
  return out;
}

pb::Price ToProto(const query::Cost& cost) {
  pb::Price out;
  out.set_patches(cost.patches);
  out.set_bytes(cost.bytes);
  out.set_bytes_read(cost.bytes_read);
  out.set_reads(cost.reads);
  out.set_reply_bytes(cost.reply_bytes);
  out.set_coded_bytes(cost.coded_bytes);
  return out;
}

query::Cost FromProto(const pb::Price& cost) {
  return {cost.patches(), cost.bytes(),       cost.bytes_read(),
          cost.reads(),   cost.reply_bytes(), cost.coded_bytes()};
}

pb::DatasetManifest DescribeField(const DatasetDescription& dataset, const FieldDescription& field) {
  DatasetDescription only;
  only.order = dataset.order;
  GridDescription& grid = only.grids.front();
  grid.dims = dataset.GridOf(field).dims;
  grid.patch = dataset.GridOf(field).patch;
  grid.levels = dataset.GridOf(field).levels;
  grid.has_axis = dataset.GridOf(field).has_axis;
  // Member by member: a copy would include the attributes, which may be megabytes.
  FieldDescription& described = only.fields.emplace_back();
  described.name = field.name;
  described.type = field.type;
  described.units = field.units;
  described.coder = field.coder;
  described.bound = field.bound;
  described.fill = field.fill;
  described.rougher = field.rougher;
  described.rougher_relative = field.rougher_relative;
  described.keyframe = field.keyframe;
  described.given = field.given;
  described.still = field.still;
  described.coordinate = field.coordinate;
  return format::ToProto(only);
}

Result<DatasetDescription> DescribedField(const pb::DatasetManifest& manifest) {
  if (manifest.ByteSizeLong() > kLargestDescribed)
    return InternalError("the server describes a field in {} bytes, more than the possible {}",
                         manifest.ByteSizeLong(), kLargestDescribed);
  Result<DatasetDescription> described = format::FromProto(manifest);
  if (!described.ok())
    return InternalError("the server describes an impossible field: {}", described.status().message());
  if (described->fields.size() != 1 || described->grids.size() != 1)
    return InternalError("the server describes {} fields on {} grids instead of one on one",
                         described->fields.size(), described->grids.size());
  return described;
}

bool PatchesFit(const GridDescription& grid) {
  constexpr std::int64_t kLargestPatch = 32 << 20;  // clients take messages of 64 MiB
  return Volume(LargestPatchShape(grid.dims, grid.patch)) <=
         kLargestPatch / static_cast<std::int64_t>(sizeof(double));
}

bool GoesAsPatches(const FieldDescription& field, const GridDescription& grid) {
  return field.keyframe == 0 && PatchesFit(grid);
}

pb::ReadHeader ToProto(const query::AnswerHeader& header) {
  pb::ReadHeader out;
  out.set_dtype(static_cast<pb::DataType>(header.type));
  out.set_step(header.step);
  for (const query::LevelExtent& level : header.levels) {
    pb::LevelExtent* extent = out.add_levels();
    extent->set_level(static_cast<std::uint32_t>(level.level));
    SetExtent(level.extent, extent);
    extent->set_max_error(level.max_error);
    extent->set_bytes(level.bytes);
    extent->set_coverage(level.coverage);
    if (level.layer != header.layer) extent->set_layer(static_cast<std::uint32_t>(level.layer));
    for (const std::int64_t samples : level.spacing) extent->add_spacing(static_cast<std::uint32_t>(samples));
  }
  *out.mutable_price() = ToProto(header.cost);
  out.set_field(header.field);
  out.set_number(header.number);
  out.set_count(header.count);
  out.set_layer(static_cast<std::uint32_t>(header.layer));
  out.set_may_miss(header.may_miss);
  for (const Box& box : header.left_out) *out.add_left_out() = format::ToProto(box);
  if (header.choice) *out.mutable_choice() = ToProto(*header.choice);
  return out;
}

namespace {

Result<int> LayerOf(std::uint32_t layer) {
  if (layer >= static_cast<std::uint32_t>(kMaxLayers))
    return InternalError("the server sends the impossible layer {}", layer);
  return static_cast<int>(layer);
}

}  // namespace

Result<query::AnswerHeader> FromProto(const pb::ReadHeader& header) {
  query::AnswerHeader out;
  out.type = static_cast<DataType>(header.dtype());
  if (SizeOf(out.type) == 0)
    return InternalError("the server sends samples of the unknown type {}", static_cast<int>(header.dtype()));
  out.step = header.step();
  for (const pb::LevelExtent& extent : header.levels()) {
    query::LevelExtent level;
    if (extent.level() >= format::kMaxLevels)
      return InternalError("the server sends samples of the impossible level {}", extent.level());
    level.level = static_cast<int>(extent.level());
    level.spacing.fill(std::int64_t{1} << level.level);
    for (int a = 0; extent.spacing_size() == 3 && a < 3; ++a)
      level.spacing[static_cast<std::size_t>(a)] = std::max<std::int64_t>(1, extent.spacing(a));
    QUARRY_ASSIGN_OR_RETURN(level.extent, GetExtent(extent));
    level.max_error = extent.max_error();
    level.bytes = extent.bytes();
    if (extent.has_coverage()) level.coverage = extent.coverage();
    QUARRY_ASSIGN_OR_RETURN(level.layer, LayerOf(extent.has_layer() ? extent.layer() : header.layer()));
    out.levels.push_back(level);
  }
  out.cost = FromProto(header.price());
  out.field = header.field();
  out.number = header.number();
  out.count = std::max<std::uint64_t>(1, header.count());
  QUARRY_ASSIGN_OR_RETURN(out.layer, LayerOf(header.layer()));
  out.may_miss = !header.has_may_miss() || header.may_miss();
  for (const pb::Box& box : header.left_out()) {
    QUARRY_ASSIGN_OR_RETURN(out.left_out.emplace_back(), format::FromProto(box));
  }
  if (header.has_choice()) {
    QUARRY_ASSIGN_OR_RETURN(out.choice, FromProto(header.choice()));
  }
  return out;
}

namespace {

pb::BoundedValue ToProto(const query::Bounded& bounded) {
  pb::BoundedValue out;
  out.set_value(bounded.value);
  out.set_low(bounded.low);
  out.set_high(bounded.high);
  out.set_unresolved(!bounded.resolved);
  return out;
}
query::Bounded FromProto(const pb::BoundedValue& bounded) {
  return {bounded.value(), bounded.low(), bounded.high(), !bounded.unresolved()};
}

pb::Bounds ToProto(const query::Bounds& bounds) {
  pb::Bounds out;
  out.set_low(bounds.low);
  out.set_high(bounds.high);
  return out;
}

pb::Histogram ToProto(const query::Histogram& histogram) {
  pb::Histogram out;
  out.set_begin(histogram.begin);
  out.set_end(histogram.end);
  out.mutable_counts()->Add(histogram.counts.begin(), histogram.counts.end());
  out.mutable_low()->Add(histogram.low.begin(), histogram.low.end());
  out.mutable_high()->Add(histogram.high.begin(), histogram.high.end());
  out.set_below(histogram.below);
  out.set_above(histogram.above);
  out.mutable_edges()->Add(histogram.edges.begin(), histogram.edges.end());
  return out;
}
Result<query::Histogram> FromProto(const pb::Histogram& histogram) {
  if (histogram.low_size() != histogram.counts_size() || histogram.high_size() != histogram.counts_size())
    return InternalError("the server sends a histogram with {} counts and {} bounds", histogram.counts_size(),
                         histogram.low_size());
  if (histogram.edges_size() != 0 && histogram.edges_size() != histogram.counts_size() + 1)
    return InternalError("the server sends a histogram with {} counts and {} edges", histogram.counts_size(),
                         histogram.edges_size());
  return query::Histogram{histogram.begin(),
                          histogram.end(),
                          {histogram.counts().begin(), histogram.counts().end()},
                          {histogram.low().begin(), histogram.low().end()},
                          {histogram.high().begin(), histogram.high().end()},
                          histogram.below(),
                          histogram.above(),
                          {histogram.edges().begin(), histogram.edges().end()}};
}

}  // namespace

pb::GetStatisticsRequest ToProto(const std::string& dataset, const query::StatisticsRequest& request) {
  pb::GetStatisticsRequest out;
  *out.mutable_query() = ToProto(dataset, request.read);
  out.mutable_percentiles()->Add(request.percentiles.begin(), request.percentiles.end());
  out.set_bins(static_cast<std::uint32_t>(request.bins));
  if (request.range) {
    out.set_range_begin(request.range->first);
    out.set_range_end(request.range->second);
  }
  out.set_scale(static_cast<pb::HistogramScale>(request.scale));  // the numbers are the same
  return out;
}

Result<query::StatisticsRequest> FromProto(const pb::GetStatisticsRequest& request) {
  query::StatisticsRequest out;
  QUARRY_ASSIGN_OR_RETURN(const query::SeriesRequest series, FromProto(request.query()));
  if (!series.single())
    return InvalidArgument("statistics are of one field of one step; leave fields and steps out");
  out.read = series.read;
  out.percentiles.assign(request.percentiles().begin(), request.percentiles().end());
  // The limit refuses all larger numbers alike.
  out.bins = static_cast<int>(std::min<std::uint32_t>(request.bins(), query::kMaxBins + 1));
  if (request.has_range_begin() != request.has_range_end())
    return InvalidArgument("the range of the histogram has only one end; give both, or none");
  if (request.has_range_begin()) out.range = {request.range_begin(), request.range_end()};
  if (!pb::HistogramScale_IsValid(request.scale()))
    return InvalidArgument("{} is no scale of bins that this server has", static_cast<int>(request.scale()));
  out.scale = static_cast<query::HistogramScale>(request.scale());
  return out;
}

pb::GetStatisticsResponse ToProto(const query::StatisticsAnswer& answer) {
  pb::GetStatisticsResponse out;
  *out.mutable_header() = ToProto(answer.header);
  const query::Statistics& from = answer.statistics;
  pb::Statistics* to = out.mutable_statistics();
  to->set_valid(from.valid);
  to->set_missing(from.missing);
  *to->mutable_min() = ToProto(from.min);
  *to->mutable_max() = ToProto(from.max);
  *to->mutable_mean() = ToProto(from.mean);
  *to->mutable_stddev() = ToProto(from.stddev);
  *to->mutable_box_min() = ToProto(from.box_min);
  *to->mutable_box_max() = ToProto(from.box_max);
  for (const query::Percentile& percentile : from.percentiles) {
    pb::Percentile* added = to->add_percentiles();
    added->set_percent(percentile.percent);
    *added->mutable_at() = ToProto(percentile.at);
  }
  if (!from.histogram.counts.empty()) *to->mutable_histogram() = ToProto(from.histogram);
  return out;
}

Result<query::StatisticsAnswer> FromProto(const pb::GetStatisticsResponse& response) {
  query::StatisticsAnswer out;
  QUARRY_ASSIGN_OR_RETURN(out.header, FromProto(response.header()));
  if (out.header.levels.empty()) return InternalError("the server sends statistics of no level");
  const pb::Statistics& from = response.statistics();
  query::Statistics& to = out.statistics;
  to.valid = from.valid();
  to.missing = from.missing();
  to.min = FromProto(from.min());
  to.max = FromProto(from.max());
  to.mean = FromProto(from.mean());
  to.stddev = FromProto(from.stddev());
  to.box_min = {from.box_min().low(), from.box_min().high()};
  to.box_max = {from.box_max().low(), from.box_max().high()};
  for (const pb::Percentile& percentile : from.percentiles())
    to.percentiles.push_back({percentile.percent(), FromProto(percentile.at())});
  if (from.has_histogram()) {
    QUARRY_ASSIGN_OR_RETURN(to.histogram, FromProto(from.histogram()));
  }
  return out;
}

pb::ReadPointsRequest ToProto(const std::string& dataset, const query::PointsRequest& request) {
  pb::ReadPointsRequest out;
  out.set_dataset(dataset);
  out.set_field(request.field);
  if (request.step) out.set_step(*request.step);
  for (const query::Point& point : request.points) out.mutable_coordinates()->Add(point.begin(), point.end());
  out.set_price_only(request.cost_only);
  if (request.layer) out.set_layer(static_cast<std::uint32_t>(*request.layer));
  return out;
}

Result<query::PointsRequest> FromProto(const pb::ReadPointsRequest& request) {
  query::PointsRequest out;
  out.field = request.field();
  if (request.has_step()) out.step = request.step();
  if (request.coordinates_size() % 3 != 0)
    return InvalidArgument("{} coordinates are not whole points; give three for each",
                           request.coordinates_size());
  out.points.reserve(static_cast<std::size_t>(request.coordinates_size() / 3));
  for (int i = 0; i < request.coordinates_size(); i += 3)
    out.points.push_back({request.coordinates(i), request.coordinates(i + 1), request.coordinates(i + 2)});
  out.cost_only = request.price_only();
  if (request.has_layer()) out.layer = NumberOf(request.layer());
  return out;
}

pb::ReadPointsResponse ToProto(const query::PointsAnswer& answer) {
  pb::ReadPointsResponse out;
  out.set_step(answer.step);
  out.set_max_error(answer.max_error);
  *out.mutable_price() = ToProto(answer.cost);
  out.mutable_values()->Add(answer.values.begin(), answer.values.end());
  return out;
}

query::PointsAnswer FromProto(const pb::ReadPointsResponse& response) {
  return {response.step(),
          response.max_error(),
          FromProto(response.price()),
          {response.values().begin(), response.values().end()}};
}

}  // namespace quarry::wire
