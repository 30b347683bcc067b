// Prints checksums of the coders' output for a fixed set of generated patches, and compares them with those
// of a file. They are the same for every compiler, optimisation and instruction set.
// Usage: identity_fingerprints FILE [--update]
// Exit code 0: all the same; 1: some differ; 77: the file was made with other libraries; 2: bad usage.

#include <fmt/format.h>
#include <zfp.h>
#include <zstd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/checksum.h"
#include "quarry/codec/patch_codec.h"
#include "quarry/codec/patch_reader.h"
#include "tests/testing/generated_patch.h"

namespace quarry::testing {
namespace {

constexpr int kPatchesPerLine = 6;
constexpr std::int64_t kMaxVolume = 50000;
constexpr int kSkipped = 77;

void Add(ByteSpan bytes, StreamingChecksum* checksum) {
  Bytes size;
  PutLittleEndian(&size, static_cast<std::uint64_t>(bytes.size()));
  checksum->Update(size);
  checksum->Update(bytes);
}

struct Checksums {
  StreamingChecksum samples;
  StreamingChecksum encoded;
  StreamingChecksum decoded;
  StreamingChecksum errors;
};

/// @returns false, with a message, when the coder fails
bool AddPatch(const PatchCoder& coder, const PatchSpec& spec, double relative_tolerance, int layers,
              Checksums* checksums) {
  GeneratedPatch patch;
  Generate(spec, &patch);
  Add(patch.samples, &checksums->samples);
  const double range = coder.traits().bound_is_relative ? 1 : ValueRange(spec.layout.type, patch);
  std::vector<double> tolerances = {relative_tolerance * range};
  while (tolerances.size() < static_cast<std::size_t>(layers)) tolerances.push_back(tolerances.back() / 64);
  const Result<EncodedPatch> encoded = EncodePatch(coder, spec.layout, patch.samples, patch.fill, tolerances);
  if (!encoded.ok()) {
    fmt::print(stderr, "{}: {}\n", ToString(spec), encoded.status().message());
    return false;
  }
  for (const Bytes& level : encoded->levels) Add(level, &checksums->encoded);
  for (const Bytes& level : encoded->mask_levels) Add(level, &checksums->encoded);
  Bytes errors;
  for (const LevelError& error : encoded->errors) {
    for (const double value : {error.max_error, error.rmse, error.coverage}) PutLittleEndian(&errors, value);
  }
  Add(errors, &checksums->errors);
  PatchReader reader(coder, spec.layout, layers);
  for (auto l = static_cast<std::size_t>(spec.layout.levels); l-- > 0;) {
    const ByteSpan mask = encoded->mask_levels.empty() ? ByteSpan() : ByteSpan(encoded->mask_levels[l]);
    std::vector<ByteSpan> payloads;
    for (int k = 0; k < layers; ++k)
      payloads.emplace_back(encoded->levels[encoded->parts.Of(k, static_cast<int>(l))]);
    if (const Status status = reader.Advance(payloads, mask); !status.ok()) {
      fmt::print(stderr, "{}: {}\n", ToString(spec), status.message());
      return false;
    }
    Add(reader.samples(), &checksums->decoded);
  }
  return true;
}

/// Checksums of some patches of one type and shape through one coder; empty when the coder fails.
std::string Line(const PatchCoder& coder, DataType type, Shape shape, int layers) {
  Checksums checksums;
  Random random(static_cast<std::uint64_t>(type) * 1000 + static_cast<std::uint64_t>(shape));
  for (int i = 0; i < kPatchesPerLine; ++i) {
    PatchSpec spec = RandomSpec(type, kMaxVolume, &random);
    spec.shape = shape;
    const double tolerance =
        i == 0 ? 0 : 1.0 / static_cast<double>(std::uint64_t{1} << random.Between(2, 30));
    if (!AddPatch(coder, spec, tolerance, layers, &checksums)) return "";
  }
  const std::string name =
      layers == 1 ? std::string(coder.name()) : fmt::format("{}/{}", coder.name(), layers);
  return fmt::format("{:<12} {:<8} {:<13} {} {} {} {}", name, Name(type), Name(shape),
                     ChecksumText(checksums.samples.Finish()), ChecksumText(checksums.encoded.Finish()),
                     ChecksumText(checksums.decoded.Finish()), ChecksumText(checksums.errors.Finish()));
}

/// Libraries that the bytes depend on.
std::string Libraries() { return fmt::format("# zfp {}, zstd {}", ZFP_VERSION_STRING, ZSTD_versionString()); }

std::vector<std::string> AllLines() {
  std::vector<std::string> lines;
  constexpr int kLayers = 3;
  for (const int layers : {1, kLayers}) {
    for (const PatchCoder* coder : FieldCoders()) {
      for (const DataType type : kAllTypes) {
        if (!coder->Supports(type) || coder->traits().most_layers < layers) continue;
        for (int shape = 0; shape < static_cast<int>(Shape::kCount); ++shape)
          lines.push_back(Line(*coder, type, static_cast<Shape>(shape), layers));
      }
    }
  }
  return lines;
}

constexpr std::string_view kPreface =
    "# XXH3 of generated samples, of their payloads and masks, and of what these decode to: one line for "
    "some\n"
    "# patches of a coder, type and shape. Written by identity_fingerprints --update.\n"
    "# Payloads contain streams of zfp (wavelet-zfp) and frames of zstd (lossless; exact levels of "
    "interpolate;\n"
    "# lists of missing values of all coders). With other versions of these libraries they may be other "
    "bytes\n"
    "# that mean the same within the tolerance: the lines hold for these.\n";

bool Update(const std::string& file, const std::vector<std::string>& lines) {
  std::ofstream out(file);
  out << kPreface << Libraries() << "\n";
  for (const std::string& line : lines) out << line << "\n";
  return static_cast<bool>(out.flush());
}

int Compare(const std::string& file, const std::vector<std::string>& lines) {
  std::ifstream in(file);
  if (!in) {
    fmt::print(stderr, "cannot read {}\n", file);
    return 2;
  }
  std::vector<std::string> expected;
  bool same_libraries = false;
  for (std::string line; std::getline(in, line);) {
    if (line == Libraries()) same_libraries = true;
    if (!line.starts_with('#')) expected.push_back(line);
  }
  if (!same_libraries) {
    fmt::print("skipped: {} is for other libraries than {}\n", file, Libraries().substr(2));
    return kSkipped;
  }
  std::size_t different = 0;
  for (std::size_t i = 0; i < std::max(lines.size(), expected.size()); ++i) {
    const std::string_view here = i < lines.size() ? std::string_view(lines[i]) : "(nothing)";
    const std::string_view there = i < expected.size() ? std::string_view(expected[i]) : "(nothing)";
    if (here == there) continue;
    ++different;
    fmt::print("expected {}\n     got {}\n", there, here);
  }
  fmt::print("{} of {} lines are the same\n", lines.size() - std::min(different, lines.size()),
             expected.size());
  if (different > 0) {
    fmt::print(
        "If the bytes of a coder were meant to change: identity_fingerprints {} --update, then "
        "scripts/identity.sh\n",
        file);
  }
  return different == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  const bool update = argc == 3 && std::string_view(argv[2]) == "--update";
  if (argc != 2 && !update) {
    fmt::print(stderr, "usage: identity_fingerprints FILE [--update]\n");
    return 2;
  }
  const std::vector<std::string> lines = AllLines();
  if (std::find(lines.begin(), lines.end(), "") != lines.end()) return 1;
  if (!update) return Compare(argv[1], lines);
  if (Update(argv[1], lines)) return 0;
  fmt::print(stderr, "cannot write {}\n", argv[1]);
  return 2;
}

}  // namespace
}  // namespace quarry::testing

int main(int argc, char** argv) { return quarry::testing::Main(argc, argv); }
