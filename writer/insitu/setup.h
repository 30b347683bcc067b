#pragma once

#include <string>

#include "quarry/base/endian.h"
#include "writer/insitu/declaration.h"
#include "writer/pipeline/dataset_writer.h"

namespace quarry::insitu {

using writer::OpenMode;
using writer::PipelineOptions;

/// Everything but the boxes: the same on every rank.
struct Setup {
  std::string path;  ///< path of the dataset, NAME.quarry
  OpenMode mode = OpenMode::kCreate;
  Declaration declaration;
  PipelineOptions pipeline;
};

/// As bytes, for comparing and sending. DecodeSetup(EncodeSetup(s)) is s, but for pipeline.progress.
Bytes EncodeSetup(const Setup& setup);
/// @errors kDataLoss: not made by EncodeSetup
Result<Setup> DecodeSetup(ByteSpan bytes);

}  // namespace quarry::insitu
