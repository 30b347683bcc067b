#include "quarry/input/dense.h"

#include <algorithm>
#include <bit>

namespace quarry::input::internal {
namespace {

using ReadAtPlace = std::function<Status(std::uint64_t position, std::span<std::byte>)>;

/// Samples of one component from number `first` on, one after the other.
Status ReadRun(const DenseLayout& layout, std::size_t size, std::uint64_t first, std::span<std::byte> out,
               const ReadAtPlace& read) {
  if (layout.components == 1) return read(first * size, out);
  const std::size_t stride = static_cast<std::size_t>(layout.components) * size;
  const std::size_t skip = static_cast<std::size_t>(layout.component) * size;
  constexpr std::size_t kPiece = std::size_t{1} << 16;  // samples
  Bytes all;
  for (std::size_t done = 0; done < out.size() / size; done += kPiece) {
    const std::size_t count = std::min(kPiece, out.size() / size - done);
    all.resize(count * stride);
    QUARRY_RETURN_IF_ERROR(read((first + done) * stride, all));
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(out.data() + (done + i) * size, all.data() + i * stride + skip, size);
  }
  return Status::Ok();
}

class DenseInput final : public Input {
 public:
  DenseInput(InputInfo info, const DenseLayout& layout, std::unique_ptr<SampleBytes> bytes)
      : Input(std::move(info)), layout_(layout), bytes_(std::move(bytes)) {}

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    return ReadDense(info_, layout_, box, samples, [&](std::uint64_t position, std::span<std::byte> bytes) {
      return bytes_->ReadAt(position, bytes);
    });
  }

 private:
  DenseLayout layout_;
  std::unique_ptr<SampleBytes> bytes_;
};

}  // namespace

Status ReadDense(const InputInfo& info, const DenseLayout& layout, const Box& box,
                 std::span<std::byte> samples, const ReadAtPlace& read) {
  const std::size_t size = SizeOf(info.type);
  const Index3& dims = info.dims;
  const Index3 shape = box.shape();
  // A run is as many rows, or planes, as are contiguous in the file.
  const bool whole_rows = shape[0] == dims[0];
  const bool whole_planes = whole_rows && shape[1] == dims[1];
  const Index3 run = {shape[0], whole_rows ? shape[1] : 1, whole_planes ? shape[2] : 1};
  const std::size_t run_bytes = static_cast<std::size_t>(Volume(run)) * size;
  std::size_t done = 0;
  for (std::int64_t z = box.begin[2]; z < box.end[2]; z += run[2]) {
    for (std::int64_t y = box.begin[1]; y < box.end[1]; y += run[1]) {
      const auto first = static_cast<std::uint64_t>(box.begin[0] + dims[0] * (y + dims[1] * z));
      QUARRY_RETURN_IF_ERROR(ReadRun(layout, size, first, samples.subspan(done, run_bytes), read));
      done += run_bytes;
    }
  }
  if (layout.big_endian != (std::endian::native == std::endian::big)) SwapBytes(samples, size);
  return Status::Ok();
}

Status FileBytes::ReadAt(std::uint64_t position, std::span<std::byte> out) const {
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), position,
                                  [](std::uint64_t at, const Segment& s) { return at < s.position; }) -
                 1;
  for (std::size_t done = 0; done < out.size(); ++segment) {
    const std::uint64_t at = position + done;
    const bool last = segment + 1 == segments_.end();
    const std::size_t bytes = last ? out.size() - done
                                   : static_cast<std::size_t>(std::min<std::uint64_t>(
                                         out.size() - done, (segment + 1)->position - at));
    QUARRY_RETURN_IF_ERROR(
        file_->ReadAt(segment->offset + (at - segment->position), out.subspan(done, bytes)));
    done += bytes;
  }
  return Status::Ok();
}

std::unique_ptr<Input> MakeDenseInput(InputInfo info, const DenseLayout& layout,
                                      std::unique_ptr<SampleBytes> bytes) {
  return std::make_unique<DenseInput>(std::move(info), layout, std::move(bytes));
}

Result<std::shared_ptr<const RandomAccessFile>> OpenShared(const std::string& path) {
  QUARRY_ASSIGN_OR_RETURN(RandomAccessFile file, RandomAccessFile::Open(path));
  return std::make_shared<const RandomAccessFile>(std::move(file));
}

Result<std::uint64_t> BytesOf(const InputInfo& info) {
  std::uint64_t bytes = SizeOf(info.type);
  for (const std::int64_t n : info.dims) {
    if (n < 1 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) {
      return InvalidArgument("dims {} of \"{}\" are not possible; give three numbers of at least 1",
                             ToString(info.dims), info.path);
    }
  }
  return bytes;
}

}  // namespace quarry::input::internal
