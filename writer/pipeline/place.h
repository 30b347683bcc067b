#pragma once

#include <string>

#include "quarry/storage/writable_storage.h"

namespace quarry::writer {

/// The place that a text names: a path, or the URL of a store, in its own connections. Local.
/// @param allow_http  see PipelineOptions
/// @errors kInvalidArgument: the URL, or a web server; kUnimplemented: this build knows no stores
Result<WritableLocation> PlaceOf(const std::string& text, bool allow_http = false);

/// Whether a dataset is there, or in a directory anything. @errors those of the storage
Result<bool> DatasetExists(const WritableLocation& place);

}  // namespace quarry::writer
