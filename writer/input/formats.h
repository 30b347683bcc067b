#pragma once

#include "writer/input/input.h"

/// The readers behind OpenInputs, one a format. Each that needs a library is a target of its own, which may be left
/// out of a build.
namespace quarry::writer::internal {

using Inputs = std::vector<std::unique_ptr<Input>>;

Result<Inputs> OpenRaw(const std::string& path, const InputOptions& options);
Result<Inputs> OpenNpy(const std::string& path, const InputOptions& options);

/// "dir/run42.f32" -> "run42", with characters that a field name cannot have replaced.
std::string FieldFromPath(const std::string& path);

/// Reverses the bytes of every sample of `size` bytes.
void SwapBytes(std::span<std::byte> samples, std::size_t size);

}  // namespace quarry::writer::internal
