#include <zfp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "benchmarks/codec/candidate.h"

namespace quarry::bench {
namespace {

struct StreamCloser {
  void operator()(zfp_stream* stream) const { zfp_stream_close(stream); }
  void operator()(bitstream* bits) const { stream_close(bits); }
  void operator()(zfp_field* field) const { zfp_field_free(field); }
};

/// Axes of one sample are dropped, so that thin patches do not pay for blocks of 4^3.
std::unique_ptr<zfp_field, StreamCloser> NewField(void* samples, zfp_type type, const Index3& shape) {
  std::array<std::size_t, 3> n{};
  std::size_t rank = 0;
  for (const std::int64_t extent : shape) {
    if (extent > 1) n[rank++] = static_cast<std::size_t>(extent);
  }
  zfp_field* field = nullptr;
  if (rank == 3) {
    field = zfp_field_3d(samples, type, n[0], n[1], n[2]);
  } else if (rank == 2) {
    field = zfp_field_2d(samples, type, n[0], n[1]);
  } else {
    field = zfp_field_1d(samples, type, std::max<std::size_t>(n[0], 1));
  }
  return std::unique_ptr<zfp_field, StreamCloser>(field);
}

/// One call of zfp at a time, in memory that is kept from call to call.
class ZfpRunner {
 public:
  /// @param accuracy  absolute error, or 0: reversible
  /// @returns the stream, valid until the next call; empty when zfp gives up
  std::span<const std::uint64_t> Compress(const void* samples, zfp_type type, const Index3& shape,
                                          double accuracy) {
    const auto field = NewField(const_cast<void*>(samples), type, shape);
    const auto stream = NewStream(accuracy);
    const std::size_t words = zfp_stream_maximum_size(stream.get(), field.get()) / 8 + 1;
    if (buffer_.size() < words) buffer_.resize(words);
    const std::unique_ptr<bitstream, StreamCloser> bits(stream_open(buffer_.data(), buffer_.size() * 8));
    zfp_stream_set_bit_stream(stream.get(), bits.get());
    zfp_stream_rewind(stream.get());
    bytes_ = zfp_compress(stream.get(), field.get());
    return {buffer_.data(), (bytes_ + 7) / 8};
  }
  /// Size of the last stream.
  std::size_t bytes() const { return bytes_; }

  /// @param stream  followed by words that zfp may run into
  bool Decompress(std::span<const std::uint64_t> stream_words, void* samples, zfp_type type,
                  const Index3& shape, double accuracy) {
    const auto field = NewField(samples, type, shape);
    const auto stream = NewStream(accuracy);
    const std::unique_ptr<bitstream, StreamCloser> bits(
        stream_open(const_cast<std::uint64_t*>(stream_words.data()), stream_words.size() * 8));
    zfp_stream_set_bit_stream(stream.get(), bits.get());
    zfp_stream_rewind(stream.get());
    return zfp_decompress(stream.get(), field.get()) != 0;
  }

 private:
  static std::unique_ptr<zfp_stream, StreamCloser> NewStream(double accuracy) {
    std::unique_ptr<zfp_stream, StreamCloser> stream(zfp_stream_open(nullptr));
    if (accuracy > 0) {
      zfp_stream_set_accuracy(stream.get(), accuracy);
    } else {
      zfp_stream_set_reversible(stream.get());
    }
    zfp_stream_set_execution(stream.get(), zfp_exec_serial);
    return stream;
  }

  std::vector<std::uint64_t> buffer_;
  std::size_t bytes_ = 0;
};

constexpr std::size_t kPadding = 64;  // words that zfp may read past the end of a stream

zfp_type FloatType(DataType type) { return type == DataType::kFloat32 ? zfp_type_float : zfp_type_double; }

/// Streams of all patches.
class ZfpCandidateBase : public Candidate {
 public:
  ZfpCandidateBase(std::string name, bool lossless, const Volume& volume)
      : Candidate(std::move(name), lossless, volume), streams_(volume.patches.size()) {}

  ByteSpan decoded() const override { return decoded_; }
  std::uint64_t bytes() const override { return bytes_; }

 protected:
  void Keep(std::size_t index, std::span<const std::uint64_t> stream) {
    if (!streams_[index].empty()) return;
    streams_[index].assign(stream.begin(), stream.end());
    streams_[index].resize(stream.size() + kPadding);
    bytes_ += zfp_.bytes();
  }
  std::span<const std::uint64_t> stream(std::size_t index) const { return streams_[index]; }

  ZfpRunner zfp_;
  Bytes decoded_;

 private:
  std::vector<std::vector<std::uint64_t>> streams_;
  std::uint64_t bytes_ = 0;
};

class ZfpCandidate final : public ZfpCandidateBase {
 public:
  ZfpCandidate(const Volume& volume, double tolerance)
      : ZfpCandidateBase("zfp", false, volume), tolerance_(tolerance) {}

  Status Encode(std::size_t index) override {
    const Patch& from = patch(index);
    const auto begin = std::chrono::steady_clock::now();
    const auto stream =
        zfp_.Compress(from.harmless().data(), FloatType(from.layout.type), from.layout.shape, tolerance_);
    encode_times.Add(index, SecondsSince(begin));
    if (stream.empty()) return InternalError("zfp does not encode patch {}", index);
    Keep(index, stream);
    return Status::Ok();
  }

  Status Decode(std::size_t index) override {
    const Patch& from = patch(index);
    decoded_.resize(from.samples.size());
    const auto begin = std::chrono::steady_clock::now();
    const bool done = zfp_.Decompress(stream(index), decoded_.data(), FloatType(from.layout.type),
                                      from.layout.shape, tolerance_);
    decode_times.Add(index, SecondsSince(begin));
    return done ? Status::Ok() : InternalError("zfp does not decode patch {}", index);
  }

 private:
  double tolerance_;
};

template <typename T>
class TunedZfpCandidate final : public ZfpCandidateBase {
 public:
  TunedZfpCandidate(const Volume& volume, double tolerance)
      : ZfpCandidateBase("zfp-tuned", false, volume),
        tolerance_(tolerance),
        units_(volume.patches.size(), 0) {}

  Status Encode(std::size_t index) override {
    if (units_[index] == 0) QUARRY_RETURN_IF_ERROR(Search(index));
    const auto begin = std::chrono::steady_clock::now();
    const auto stream = Compress(index, units_[index]);
    encode_times.Add(index, SecondsSince(begin));
    if (stream.empty()) return InternalError("zfp does not encode patch {}", index);
    Keep(index, stream);
    return Status::Ok();
  }

  Status Decode(std::size_t index) override {
    const auto begin = std::chrono::steady_clock::now();
    const bool done = Decompress(index, stream(index), units_[index]);
    decode_times.Add(index, SecondsSince(begin));
    return done ? Status::Ok() : InternalError("zfp does not decode patch {}", index);
  }

 private:
  std::span<const std::uint64_t> Compress(std::size_t index, double unit) {
    const Patch& from = patch(index);
    const T* samples = reinterpret_cast<const T*>(from.harmless().data());
    const std::size_t count = from.samples.size() / sizeof(T);
    scaled_.resize(count);
    const T inverse = static_cast<T>(1 / unit);
    for (std::size_t i = 0; i < count; ++i) scaled_[i] = samples[i] * inverse;
    return zfp_.Compress(scaled_.data(), FloatType(from.layout.type), from.layout.shape, 1.0);
  }

  bool Decompress(std::size_t index, std::span<const std::uint64_t> stream, double unit) {
    const Patch& from = patch(index);
    decoded_.resize(from.samples.size());
    T* samples = reinterpret_cast<T*>(decoded_.data());
    if (!zfp_.Decompress(stream, samples, FloatType(from.layout.type), from.layout.shape, 1.0)) return false;
    const T back = static_cast<T>(unit);
    for (std::size_t i = 0; i < from.samples.size() / sizeof(T); ++i) samples[i] *= back;
    return true;
  }

  bool Holds(std::size_t index, double unit) {
    const auto stream = Compress(index, unit);
    if (stream.empty()) return false;
    std::vector<std::uint64_t> padded(stream.begin(), stream.end());
    padded.resize(stream.size() + kPadding);
    if (!Decompress(index, padded, unit)) return false;
    Deviation deviation;
    deviation.Add(patch(index), decoded_, tolerance_);
    return deviation.beyond == 0;
  }

  /// Bisection over the logarithm of unit over tolerance, to 2 %. The error is not quite monotonic in it:
  /// what counts is that the result holds.
  Status Search(std::size_t index) {
    double low = -2;
    double high = 4;
    if (!Holds(index, tolerance_ * std::exp2(low))) {
      return InternalError("zfp does not hold the tolerance in patch {}", index);
    }
    for (int step = 0; step < 8; ++step) {
      const double middle = (low + high) / 2;
      (Holds(index, tolerance_ * std::exp2(middle)) ? low : high) = middle;
    }
    units_[index] = tolerance_ * std::exp2(low);
    return Status::Ok();
  }

  double tolerance_;
  std::vector<double> units_;
  std::vector<T> scaled_;
};

/// @param T  type of the samples
/// @param W  type that zfp is given
template <typename T, typename W>
class ReversibleZfpCandidate final : public ZfpCandidateBase {
 public:
  explicit ReversibleZfpCandidate(const Volume& volume) : ZfpCandidateBase("zfp-reversible", true, volume) {}

  Status Encode(std::size_t index) override {
    const Patch& from = patch(index);
    const auto begin = std::chrono::steady_clock::now();
    const auto stream = zfp_.Compress(Widened(from.samples), kType, from.layout.shape, 0);
    encode_times.Add(index, SecondsSince(begin));
    if (stream.empty()) return InternalError("zfp does not encode patch {}", index);
    Keep(index, stream);
    return Status::Ok();
  }

  Status Decode(std::size_t index) override {
    const Patch& from = patch(index);
    decoded_.resize(from.samples.size());
    const std::size_t count = from.samples.size() / sizeof(T);
    const auto begin = std::chrono::steady_clock::now();
    bool done = false;
    if constexpr (std::is_same_v<T, W>) {
      done = zfp_.Decompress(stream(index), decoded_.data(), kType, from.layout.shape, 0);
    } else {
      wide_.resize(count);
      done = zfp_.Decompress(stream(index), wide_.data(), kType, from.layout.shape, 0);
      T* samples = reinterpret_cast<T*>(decoded_.data());
      for (std::size_t i = 0; i < count; ++i) samples[i] = static_cast<T>((wide_[i] >> kShift) + kMiddle);
    }
    decode_times.Add(index, SecondsSince(begin));
    return done ? Status::Ok() : InternalError("zfp does not decode patch {}", index);
  }

 private:
  static constexpr zfp_type kType = std::is_same_v<W, float>     ? zfp_type_float
                                    : std::is_same_v<W, double>  ? zfp_type_double
                                    : std::is_same_v<W, int32_t> ? zfp_type_int32
                                                                 : zfp_type_int64;
  // As zfp_promote_uint8_to_int32 does: around zero, and as large as it fits. zfp leaves out zeros at the low
  // end of a block, not those at the high end.
  static constexpr int kShift = sizeof(W) == 8 ? 31 : sizeof(T) == 1 ? 23 : sizeof(T) == 2 ? 15 : 0;
  static constexpr W kMiddle =
      std::is_unsigned_v<T> ? static_cast<W>(std::numeric_limits<T>::max() / 2 + 1) : 0;

  const void* Widened(ByteSpan bytes) {
    if constexpr (std::is_same_v<T, W>) {
      return bytes.data();
    } else {
      const T* samples = reinterpret_cast<const T*>(bytes.data());
      wide_.resize(bytes.size() / sizeof(T));
      for (std::size_t i = 0; i < wide_.size(); ++i)
        wide_[i] = (static_cast<W>(samples[i]) - kMiddle) << kShift;
      return wide_.data();
    }
  }

  std::vector<W> wide_;
};

}  // namespace

std::unique_ptr<Candidate> NewZfpCandidate(const Volume& volume, double tolerance) {
  return std::make_unique<ZfpCandidate>(volume, tolerance);
}

std::unique_ptr<Candidate> NewTunedZfpCandidate(const Volume& volume, double tolerance) {
  if (volume.options.type == DataType::kFloat32) {
    return std::make_unique<TunedZfpCandidate<float>>(volume, tolerance);
  }
  return std::make_unique<TunedZfpCandidate<double>>(volume, tolerance);
}

std::unique_ptr<Candidate> NewReversibleZfpCandidate(const Volume& volume) {
  return DispatchType(volume.options.type, [&](auto sample) -> std::unique_ptr<Candidate> {
    using T = decltype(sample);
    // zfp has no unsigned types and none below 32 bits.
    using W = std::conditional_t<std::is_floating_point_v<T>, T,
                                 std::conditional_t<std::is_same_v<T, std::uint32_t>, int64_t, int32_t>>;
    return std::make_unique<ReversibleZfpCandidate<T, W>>(volume);
  });
}

}  // namespace quarry::bench
