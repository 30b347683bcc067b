#pragma once

#include <string>

#include "quarry/base/status.h"
#include "quarry/v1/service.pb.h"
#include "quarry/zarr/chunk_buffer.h"

/// Chunks of Zarr as questions to the service, and its answers as chunks.
namespace quarry::server::http {

/// The message Read for the samples of a chunk.
::quarry::v1::ReadRequest ToMessage(const zarr::ChunkQuestion& question, const std::string& dataset);

/// Takes the samples of a message to a chunk.
/// @errors kDataLoss: damage, which never looks like samples; kInternal: they do not fit the question
Status AddSamples(const ::quarry::v1::SampleBlocks& samples, zarr::ChunkBuffer* chunk);

}  // namespace quarry::server::http
