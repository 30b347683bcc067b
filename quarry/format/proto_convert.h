#pragma once

#include "quarry/format/proto_values.h"

/// Descriptions to protobuf messages and back. FromProto checks everything (invariants.h): its argument may
/// come from a damaged file or from the network.
namespace quarry::format {

pb::DatasetManifest ToProto(const DatasetDescription& dataset);
pb::StepManifest ToProto(const StepDescription& step);
/// The same without subfiles.
pb::StepManifest ToProto(const StepSummary& step);

/// The grid of a manifest from before there were several.
pb::Grid GridOf(pb::OneGrid one);

/// @errors kDataLoss: a value is missing or impossible
Result<DatasetDescription> FromProto(const pb::DatasetManifest& manifest);
Result<StepDescription> FromProto(const pb::StepManifest& manifest, const DatasetDescription& dataset);
/// @param manifest  with subfiles or without
Result<StepSummary> SummaryFromProto(const pb::StepManifest& manifest, const DatasetDescription& dataset);

}  // namespace quarry::format
