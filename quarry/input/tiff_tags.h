#pragma once

#include <tiffio.h>

#include "quarry/input/input.h"
#include "quarry/input/tiff_stack.h"

/// Samples and their positions, from the tags of the first page.
namespace quarry::input::internal {

std::string DescriptionOf(TIFF* tiff);
Resolution ResolutionOf(TIFF* tiff);

/// @errors kInvalidArgument: planes lie where only another program finds them
Status CheckKind(TIFF* tiff);

/// The text "Info" that ImageJ keeps in tags of its own, if it is ASCII; else empty.
std::string ImageJInfo(TIFF* tiff);

/// Missing samples and units of GDAL, positions of GeoTIFF, colours: into the field, or into its warnings.
void TakeTags(TIFF* tiff, InputInfo* info);

}  // namespace quarry::input::internal
