#pragma once

#include "quarry/query/points.h"
#include "quarry/query/statistics.h"
#include "quarry/question.h"
#include "quarry/v1/service.pb.h"

/// Questions and answers as messages of the service. FromProto checks shapes; the planner checks whether a
/// box or level exists.
namespace quarry::wire {

namespace pb = ::quarry::v1;

pb::ReadQuery ToProto(const std::string& dataset, const query::SeriesRequest& request);
Result<query::SeriesRequest> FromProto(const pb::ReadQuery& query);

/// The error that coding an answer may add, in a request to read.
query::Recode RecodeOf(const pb::ReadRequest& request);
void SetRecode(const query::Recode& recode, pb::ReadRequest* request);

pb::Path ToProto(const query::Path& path);
/// @errors kInvalidArgument: times or rates that are not finite, or below 0
Result<query::Path> FromProto(const pb::Path& path);

pb::EncodingChoice ToProto(const query::EncodingChoice& choice);
/// @errors kInternal: the server sent an impossible choice
Result<query::EncodingChoice> FromProto(const pb::EncodingChoice& choice);

pb::Price ToProto(const query::Cost& cost);
query::Cost FromProto(const pb::Price& cost);

/// [bytes] The largest description of a field in a header; a server leaves a larger one out.
inline constexpr std::size_t kLargestDescribed = 64 << 10;

/// A dataset as far as samples of one field need it: the field, and of its grid samples, patches and levels.
pb::DatasetManifest DescribeField(const DatasetDescription& dataset, const FieldDescription& field);
/// @errors kInternal: the server sent no description of one field
Result<DatasetDescription> DescribedField(const pb::DatasetManifest& manifest);

/// Whether the message of a patch stays below the limit of clients.
bool PatchesFit(const GridDescription& grid);
/// Whether every client can take a field as stored patches: they fit, and none refers to other steps, which
/// only the server has.
bool GoesAsPatches(const FieldDescription& field, const GridDescription& grid);

pb::ReadHeader ToProto(const query::AnswerHeader& header);
/// @errors kInternal: the server sent an impossible answer
Result<query::AnswerHeader> FromProto(const pb::ReadHeader& header);

pb::GetStatisticsRequest ToProto(const std::string& dataset, const query::StatisticsRequest& request);
Result<query::StatisticsRequest> FromProto(const pb::GetStatisticsRequest& request);
pb::GetStatisticsResponse ToProto(const query::StatisticsAnswer& answer);
/// @errors kInternal: the server sent an impossible answer
Result<query::StatisticsAnswer> FromProto(const pb::GetStatisticsResponse& response);

pb::ReadPointsRequest ToProto(const std::string& dataset, const query::PointsRequest& request);
/// @errors kInvalidArgument: a point without three coordinates
Result<query::PointsRequest> FromProto(const pb::ReadPointsRequest& request);
pb::ReadPointsResponse ToProto(const query::PointsAnswer& answer);
query::PointsAnswer FromProto(const pb::ReadPointsResponse& response);

/// Begin and shape of a box of level samples.
template <typename Message>
void SetExtent(const Box& extent, Message* message) {
  const Index3 shape = extent.shape();
  for (std::size_t a = 0; a < 3; ++a) {
    message->add_begin(static_cast<std::uint32_t>(extent.begin[a]));
    message->add_shape(static_cast<std::uint32_t>(shape[a]));
  }
}
template <typename Message>
Result<Box> GetExtent(const Message& message) {
  if (message.begin_size() != 3 || message.shape_size() != 3)
    return InternalError("a message of the server has a box without three axes");
  Box box;
  for (int a = 0; a < 3; ++a) {
    box.begin[static_cast<std::size_t>(a)] = message.begin(a);
    box.end[static_cast<std::size_t>(a)] = std::int64_t{message.begin(a)} + message.shape(a);
  }
  return box;
}

}  // namespace quarry::wire
