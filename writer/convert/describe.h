#pragma once

#include <optional>
#include <string>
#include <vector>

#include "writer/convert/jobs.h"

/// The dataset that the jobs of a run make, described from options and inputs alone.
namespace quarry::writer {

/// The dataset.json after the run, based on the existing one when appending.
/// @param unit  of its times
/// @errors kInvalidArgument: options contradict each other or the existing dataset
Result<DatasetDescription> DescribeResult(const WriteOptions& options, const Jobs& jobs,
                                          const std::optional<DatasetDescription>& existing,
                                          const TimeUnit& unit);

/// Attributes of the inputs that the dataset does not keep, because the inputs differ.
std::vector<std::string> ListOtherWords(const Jobs& jobs, const DatasetDescription& dataset);

/// How the samples of a file differ from those that its field stores; nothing if they do not.
/// @param field  described for it by DescribeResult
Result<std::optional<FieldSource::Wider>> FindWider(const WriteOptions& options,
                                                    const input::InputInfo& input,
                                                    const FieldDescription& field);

}  // namespace quarry::writer
