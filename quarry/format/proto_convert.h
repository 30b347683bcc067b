#pragma once

#include "quarry/format/description.h"
#include "quarry/v1/dataset.pb.h"

/// Descriptions to protobuf messages and back. FromProto checks everything (invariants.h): its argument may
/// come from a damaged file or from the network.
namespace quarry::format {

namespace pb = ::quarry::v1;

pb::DatasetManifest ToProto(const DatasetDescription& dataset);
pb::StepManifest ToProto(const StepDescription& step);
pb::Box ToProto(const Box& box);
pb::Grid ToProto(const GridDescription& grid);
pb::Attribute ToProto(const Attribute& attribute);

/// @errors kDataLoss: a value is missing or impossible
Result<DatasetDescription> FromProto(const pb::DatasetManifest& manifest);
Result<StepDescription> FromProto(const pb::StepManifest& manifest, const DatasetDescription& dataset);
Result<Box> FromProto(const pb::Box& box);
Result<GridDescription> FromProto(const pb::Grid& grid);
Result<Attribute> FromProto(const pb::Attribute& attribute);

}  // namespace quarry::format
