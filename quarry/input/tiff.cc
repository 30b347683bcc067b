// Stacks of TIFF images, one for each z: a folder, a pattern, or a file with several pages; through libtiff.

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "quarry/base/natural_order.h"
#include "quarry/input/exported.h"
#include "quarry/input/formats.h"
#include "quarry/input/tiff_image.h"
#include "quarry/input/tiff_names.h"
#include "quarry/input/tiff_stack.h"
#include "quarry/input/tiff_tags.h"
#include "quarry/storage/location.h"

namespace quarry::input::internal {
namespace {

namespace fs = std::filesystem;

bool HasTiffEnding(const fs::path& path) {
  const std::string ending = Lower(path.extension().string());
  return ending == ".tif" || ending == ".tiff";
}

/// The files of a folder, or those that match the last part of a pattern, in natural order.
Result<std::vector<std::string>> ListFiles(const InputName& name) {
  std::error_code error;
  const bool folder = fs::is_directory(name.file, error);
  if (!folder && fs::exists(name.file, error)) return std::vector<std::string>{name.file};
  const fs::path pattern = fs::path(name.file).filename();
  fs::path parent = folder ? fs::path(name.file) : fs::path(name.file).parent_path();
  std::vector<std::string> files;
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries,
                          Location(parent.empty() ? "." : parent).List());
  for (const FolderEntry& entry : entries) {
    const fs::path file = entry.name;
    const bool wanted =
        folder ? HasTiffEnding(file) : fnmatch(pattern.c_str(), file.c_str(), FNM_PERIOD) == 0;
    if (wanted) files.push_back((parent / file).string());
  }
  if (files.empty()) {
    return NotFound("there is no {} \"{}\"; give a folder of .tif files, a pattern, or a file",
                    folder ? ".tif or .tiff file in" : "file", name.file);
  }
  std::sort(files.begin(), files.end(), NaturalLess);
  return files;
}

/// The pages of a file that holds several images; skips previews in between.
Result<std::vector<ImagePlace>> ListPages(TIFF* tiff, const std::string& path, const ImageShape& first) {
  std::vector<ImagePlace> pages;
  ClearTiffError();
  do {
    std::uint32_t kind = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SUBFILETYPE, &kind);
    if (!pages.empty() && (kind & FILETYPE_REDUCEDIMAGE) != 0) continue;
    QUARRY_ASSIGN_OR_RETURN(const ImageShape shape, ReadShape(tiff, path));
    if (shape != first) {
      return InvalidArgument("page {} of \"{}\" is {}, but the first is {}; a stack has images of one kind",
                             pages.size(), path, shape.ToString(), first.ToString());
    }
    pages.push_back({path, TIFFCurrentDirOffset(tiff)});
  } while (TIFFReadDirectory(tiff) == 1);
  if (TIFFLastDirectory(tiff) == 0)
    return DataLoss("\"{}\" ends or is damaged behind page {}: {}", path, pages.size() - 1, TiffError());
  return pages;
}

/// Images behind the first one, as ImageJ keeps stacks of more than 4 GiB: one page has the place of the
/// first.
Result<std::vector<ImagePlace>> PlaceBehindFirst(TIFF* tiff, const std::string& path, const ImageShape& shape,
                                                 const Stack& stack) {
  const auto refuse = [&](const std::string& why) {
    return DataLoss(
        "\"{}\" has {} images, says {}, and one page: {}; the file is incomplete, or save its images as "
        "pages",
        path, stack.images(), stack.writer, why);
  };
  std::uint16_t compression = COMPRESSION_NONE;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
  if (compression != COMPRESSION_NONE || TIFFIsTiled(tiff)) return refuse("it is compressed or in tiles");
  std::uint64_t bytes = static_cast<std::uint64_t>(shape.width) * shape.height;
  const std::uint64_t size = TIFFGetSizeProc(tiff)(TIFFClientdata(tiff));
  const std::uint64_t first = TIFFGetStrileOffset(tiff, 0);
  if (__builtin_mul_overflow(bytes, SizeOf(shape.type), &bytes) || bytes > size || first == 0 || first > size)
    return refuse("the file ends in its first image");
  std::uint64_t end = first;
  for (std::uint32_t strip = 0; strip < TIFFNumberOfStrips(tiff); ++strip) {
    if (TIFFGetStrileOffset(tiff, strip) != end) return refuse("its strips do not lie behind each other");
    end += TIFFGetStrileByteCount(tiff, strip);
  }
  // The only strip may have all images.
  const auto images = static_cast<std::uint64_t>(stack.images());
  if (end - first != bytes && end - first != bytes * images) return refuse("its strips have another size");
  if ((size - first) / bytes < images)
    return refuse(fmt::format("the file ends behind image {} of {}", (size - first) / bytes, images));
  std::vector<ImagePlace> places;
  for (std::uint64_t i = 0; i < images; ++i) places.push_back({path, 0, first + i * bytes});
  return places;
}

/// All images of a file, in the order of the dimensions of its stack.
Result<std::vector<ImagePlace>> PlaceImages(TIFF* tiff, const std::string& path, const ImageShape& shape,
                                            const std::vector<ImagePlace>& pages, const Stack& stack) {
  if (stack.dimensions.empty()) return pages;
  const auto images = static_cast<std::size_t>(stack.images());
  if (stack.pages.empty() && stack.may_be_contiguous && pages.size() == 1 && images > 1)
    return PlaceBehindFirst(tiff, path, shape, stack);
  if (stack.pages.empty() && images < pages.size()) {
    return InvalidArgument(
        "\"{}\" has {} pages, but {} says {} images; save the stack that you want as a separate file", path,
        pages.size(), stack.writer, images);
  }
  std::vector<ImagePlace> places;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < images; ++i) {
    const std::int64_t page = stack.pages.empty() ? static_cast<std::int64_t>(i) : stack.pages[i];
    if (page < 0 || static_cast<std::size_t>(page) >= pages.size()) {
      ++missing;
    } else {
      places.push_back(pages[static_cast<std::size_t>(page)]);
    }
  }
  if (missing == 0) return places;
  return DataLoss("\"{}\" has {} images, says {}, but no page for {} of them; fetch the file again", path,
                  images, stack.writer, missing);
}

/// "scan/img_*.tif" -> "img", or "scan" if the pattern begins with a wildcard.
std::string FieldOf(const InputName& name) {
  std::string stem = fs::path(name.Source("")).stem().string();
  stem.resize(std::min(stem.size(), stem.find_first_of("*?[")));
  while (!stem.empty() && (stem.back() == '_' || stem.back() == '-' || stem.back() == '.')) stem.pop_back();
  if (stem.empty()) stem = fs::path(name.file).parent_path().filename().string();
  return FieldFromName(stem);
}

/// Contents of a stack of one file or several.
struct Images {
  Stack stack;
  std::vector<ImagePlace> places;  ///< in the order of the stack's dimensions
  ImageShape shape;
};

/// Each file is a plane.
Result<Images> ImagesOfFiles(const std::vector<std::string>& files, TIFF* tiff, const ImageShape& shape,
                             const std::string& path) {
  Images images;
  images.shape = shape;
  std::vector<std::string> names;
  for (const std::string& file : files) {
    images.places.push_back({file, 0});
    names.push_back(fs::path(file).filename().string());
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::string> warnings, CheckImageNames(names, path));
  const std::string description = DescriptionOf(tiff);
  const bool is_imagej = description.starts_with("ImageJ=");
  QUARRY_ASSIGN_OR_RETURN(images.stack,
                          DescribeStack(is_imagej ? description : "", 1, ResolutionOf(tiff), names.front())
                              .Annotate(fmt::format("\"{}\"", files.front())));
  const bool has_pages = TIFFReadDirectory(tiff) == 1;
  TIFFSetDirectory(tiff, 0);
  if (has_pages || images.stack.images() > 1) {
    return InvalidArgument(
        "\"{}\" has several images; in a folder or pattern each file is one plane. Give the files "
        "themselves, which become steps",
        files.front());
  }
  images.stack.dimensions = {{"z", static_cast<std::int64_t>(files.size()), Role::kUnknown}};
  images.stack.warnings.insert(images.stack.warnings.end(), warnings.begin(), warnings.end());
  return images;
}

/// Each page is a plane, a channel or a time, as the description says.
Result<Images> ImagesOfPages(TIFF* tiff, const ImageShape& shape, const std::string& path) {
  Images images;
  images.shape = shape;
  QUARRY_ASSIGN_OR_RETURN(const std::vector<ImagePlace> pages, ListPages(tiff, path, shape));
  TIFFSetDirectory(tiff, 0);
  const auto count = static_cast<std::int64_t>(pages.size());
  QUARRY_ASSIGN_OR_RETURN(images.stack, DescribeStack(DescriptionOf(tiff), count, ResolutionOf(tiff),
                                                      fs::path(path).filename().string())
                                            .Annotate(fmt::format("\"{}\"", path)));
  QUARRY_ASSIGN_OR_RETURN(images.places, PlaceImages(tiff, path, shape, pages, images.stack));
  if (images.stack.dimensions.empty()) images.stack.dimensions = {{"z", count, Role::kUnknown}};
  return images;
}

/// Takes the metadata of our own exports: names, units, exact positions and times.
void TakeExported(const Exported& exported, const InputOptions& options, InputInfo* info, Stack* stack) {
  const ExportedField& field = exported.fields.front();
  if (field.dimensions.size() != 4 || !options.axes.empty()) return;
  if (options.field.empty()) info->field = FieldFromName(field.name);
  info->units = Text(field.attributes, "units");
  for (std::size_t a = 0; a < 3; ++a) {
    const ExportedCoordinate* positions = exported.PositionsOf(field.dimensions[3 - a]);
    if (positions == nullptr || static_cast<std::int64_t>(positions->values.size()) != info->dims[a])
      continue;
    info->axes[a] = {};
    info->axes[a].name = positions->name;
    info->axes[a].units = Text(positions->attributes, "units");
    PlaceAxis(positions->values, DataType::kFloat64, &info->axes[a]);
  }
  const ExportedCoordinate* times = exported.Times();
  if (times == nullptr) return;
  stack->times = times->values;
  stack->time_unit = {Text(times->attributes, "units"), Text(times->attributes, "calendar")};
  if (times->values.size() != 1) return;
  info->time = times->values.front();
  info->time_unit = stack->time_unit;
}

/// Says that voxels have no size along z, where they have one along x and y.
void WarnOfSpacing(InputInfo* info) {
  std::string known;
  std::string unknown;
  for (std::size_t a = 0; a < 3; ++a) {
    if (info->dims[a] == 1) continue;
    std::string& list = info->axes[a].spacing ? known : unknown;
    list += (list.empty() ? "" : ", ") + std::string(1, kAxisNames[a]);
  }
  if (known.empty() || unknown.empty()) return;
  info->warnings.push_back(fmt::format(
      "the file has the distance of samples along {}, but not along {}, where it is taken as 1; give "
      "--spacing",
      known, unknown));
}

/// Which images make the fields and moments that the user wants.
struct Choice {
  AxisRoles roles;
  std::vector<std::size_t> strides;  ///< strides of the stack's dimensions, in images

  /// The image of plane z.
  std::size_t ImageOf(std::int64_t field, std::int64_t moment, std::int64_t z) const {
    std::size_t image = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      std::int64_t index = roles.first[d];
      if (roles.fields == d) index += field;
      if (roles.time == d) index += moment;
      if (roles.grid[2] == d) index += z;
      image += strides[d] * static_cast<std::size_t>(index);
    }
    return image;
  }
};

Result<Choice> ChooseImages(const Images& images, const InputOptions& options, const std::string& path) {
  std::vector<AxisDimension> dimensions = images.stack.dimensions;
  dimensions.push_back({"y", images.shape.height, Role::kUnknown});
  dimensions.push_back({"x", images.shape.width, Role::kUnknown});
  Result<AxisRoles> roles = AssignAxes(dimensions, options);
  if (!roles.ok()) return InvalidArgument("\"{}\": {}", path, roles.status().message());
  const std::size_t rows = dimensions.size() - 2;
  if (roles->grid[0] != rows + 1 || roles->grid[1] != rows) {
    return InvalidArgument(
        "\"{}\": the rows and columns of images are y and x, the last two of --axes; give no "
        "--index of them",
        path);
  }
  Choice choice{*roles, std::vector<std::size_t>(rows, 1)};
  for (std::size_t d = rows; d-- > 1;)
    choice.strides[d - 1] = choice.strides[d] * static_cast<std::size_t>(dimensions[d].length);
  return choice;
}

/// The name of one field of several.
std::string NameOfField(const InputInfo& info, const Images& images, const InputOptions& options,
                        std::size_t dimension, std::int64_t index) {
  const std::string axis = options.axes.empty() ? images.stack.dimensions[dimension].name
                                                : std::string(1, options.axes[dimension]);
  const auto number = static_cast<std::size_t>(index);
  if (axis == "channel" && number < images.stack.channels.size() && !images.stack.channels[number].empty())
    return FieldFromName(fmt::format("{}_{}", info.field, images.stack.channels[number]));
  return FieldFromName(fmt::format("{}_{}{}", info.field, axis, index));
}

Inputs MakeInputs(const InputInfo& info, const Images& images, const Choice& choice,
                  const InputOptions& options) {
  Inputs inputs;
  const AxisRoles& roles = choice.roles;
  for (std::int64_t field = 0; field < roles.field_count; ++field) {
    for (std::int64_t moment = 0; moment < roles.moments; ++moment) {
      InputInfo of_moment = info;
      if (roles.fields) {
        const std::int64_t index = roles.first[*roles.fields] + field;
        of_moment.field = NameOfField(info, images, options, *roles.fields, index);
        of_moment.source =
            fmt::format("{} {}={}", info.source, images.stack.dimensions[*roles.fields].name, index);
      }
      if (roles.time) {
        const auto t = static_cast<std::size_t>(roles.first[*roles.time] + moment);
        if (t < images.stack.times.size()) of_moment.time = images.stack.times[t];
        of_moment.time_unit = images.stack.time_unit;
      }
      std::vector<ImagePlace> places;
      for (std::int64_t z = 0; z < info.dims[2]; ++z)
        places.push_back(images.places[choice.ImageOf(field, moment, z)]);
      std::unique_ptr<Input> opened = MakeTiffInput(std::move(of_moment), images.shape, std::move(places));
      inputs.push_back(images.shape.is_half ? WidenInput(std::move(opened)) : std::move(opened));
    }
  }
  return inputs;
}

}  // namespace

Result<Inputs> OpenTiff(const InputName& name, const InputOptions& options) {
  SilenceTiff();
  if (!name.variable.empty()) {
    return InvalidArgument("\"{}\" holds images without names; leave \":{}\" out", name.file, name.variable);
  }
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles(name));
  // The others are checked when they are read: opening thousands of files takes long on some file systems.
  QUARRY_ASSIGN_OR_RETURN(const Tiff tiff, OpenTiffFile(files.front()));
  InputInfo info;
  info.path = name.path;
  info.source = name.Source("");
  info.field = options.field.empty() ? FieldOf(name) : options.field;
  // Before the shape: it says why a page of several planes is none.
  QUARRY_RETURN_IF_ERROR(CheckKind(tiff.get()).Annotate(fmt::format("\"{}\"", files.front())));
  QUARRY_ASSIGN_OR_RETURN(const ImageShape shape, ReadShape(tiff.get(), files.front()));
  info.type = shape.type;
  QUARRY_ASSIGN_OR_RETURN(Images images, files.size() == 1
                                             ? ImagesOfPages(tiff.get(), shape, files.front())
                                             : ImagesOfFiles(files, tiff.get(), shape, name.path));
  QUARRY_ASSIGN_OR_RETURN(const Choice choice, ChooseImages(images, options, name.path));
  const std::optional<std::size_t>& planes = choice.roles.grid[2];
  info.dims = {shape.width, shape.height, planes ? images.stack.dimensions[*planes].length : 1};
  info.unit = {shape.width, shape.height, 1};
  info.axes = images.stack.axes;
  info.warnings = images.stack.warnings;
  TakeTags(tiff.get(), &info);
  if (const std::optional<Exported> exported = ParseExported(ImageJInfo(tiff.get())))
    TakeExported(*exported, options, &info, &images.stack);
  WarnOfSpacing(&info);
  QUARRY_RETURN_IF_ERROR(CheckOptions(info, options));
  return MakeInputs(info, images, choice, options);
}

}  // namespace quarry::input::internal
