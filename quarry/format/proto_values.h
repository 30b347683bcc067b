#pragma once

#include "quarry/base/status.h"
#include "quarry/description.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/v1/dataset.pb.h"

/// Parts of descriptions to protobuf messages and back: boxes, attributes, grids. FromProto as in
/// proto_convert.h.
namespace quarry::format {

namespace pb = ::quarry::v1;

pb::Box ToProto(const Box& box);
pb::Attribute ToProto(const Attribute& attribute);
pb::Grid ToProto(const GridDescription& grid);

/// @errors kDataLoss: a value is missing or impossible
Result<Box> FromProto(const pb::Box& box);
Result<Attribute> FromProto(const pb::Attribute& attribute);
Result<GridDescription> FromProto(const pb::Grid& grid);

template <typename List>
void AttributesToProto(const Attributes& attributes, List* out) {
  for (const Attribute& attribute : attributes) *out->Add() = ToProto(attribute);
}

template <typename List>
Result<Attributes> AttributesFromProto(const List& attributes) {
  if (static_cast<std::size_t>(attributes.size()) > kMaxAttributes)
    return DataLoss("there are {} attributes; the maximum is {}", attributes.size(), kMaxAttributes);
  Attributes out;
  for (const pb::Attribute& attribute : attributes) {
    QUARRY_ASSIGN_OR_RETURN(out.emplace_back(), FromProto(attribute));
  }
  return out;
}

}  // namespace quarry::format
