#include "quarry/codec/mask/missing_values.h"

#include <algorithm>
#include <cstring>

#include "quarry/codec/entropy/varint.h"
#include "quarry/codec/entropy/zstd_frame.h"
#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/sample_span.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry::mask {
namespace {

// Shorter lists are stored uncompressed: a frame has an overhead of a few bytes.
constexpr std::size_t kSmallestFrame = 32;
constexpr int kZstdLevel = 3;
constexpr std::size_t kLongestVarint = 5;

/// Calls `function` with a zero of the unsigned type of `size` bytes: samples are bits here.
template <typename Function>
void WithWordOf(std::size_t size, const Function& function) {
  if (size == 1) function(std::uint8_t{0});
  if (size == 2) function(std::uint16_t{0});
  if (size == 4) function(std::uint32_t{0});
  if (size == 8) function(std::uint64_t{0});
}

/// Calls `visit` with the number of each missing sample that level `level` adds to the coarser one, in memory
/// order, until it returns false.
template <typename Visit>
void ForEachNewMissing(const PatchLayout& layout, int level, Validity validity, const Visit& visit) {
  const Index3 shape = LevelShape(layout.shape, level);
  const bool coarsest = level == layout.levels - 1;
  std::size_t i = 0;
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const bool row_is_new = coarsest || y % 2 != 0 || z % 2 != 0;
      for (std::int64_t x = 0; x < shape[0]; ++x, ++i) {
        if (validity[i] == 0 && (row_is_new || x % 2 != 0) && !visit(i)) return;
      }
    }
  }
}

template <typename Word>
struct CommonValue {
  Word value;
  bool only;  ///< all missing samples have this value
};

template <typename Word>
struct FindOthers {
  /// Sets `any` to 0 if all missing samples are `value`.
  QUARRY_INLINE static void Run(const Word* __restrict samples, const std::uint8_t* __restrict validity,
                                std::size_t count, Word value, Word* any) {
    Word others = 0;
    for (std::size_t i = 0; i < count; ++i)
      others = static_cast<Word>(others | (validity[i] != 0 ? 0 : samples[i] ^ value));
    *any = others;
  }
};

/// The most frequent missing value; of several, the one with the smallest bits. Some sample must be missing.
template <typename Word>
CommonValue<Word> MostFrequent(std::span<const Word> samples, Validity validity) {
  const auto first = std::find(validity.begin(), validity.end(), std::uint8_t{0}) - validity.begin();
  const Word value = samples[static_cast<std::size_t>(first)];
  Word others = 0;
  RunOnBestInstructionSet<FindOthers<Word>>(samples.data(), validity.data(), samples.size(), value, &others);
  if (others == 0) return {value, true};
  std::vector<Word> missing;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (validity[i] == 0) missing.push_back(samples[i]);
  }
  std::sort(missing.begin(), missing.end());
  Word best{};
  std::size_t most = 0;
  for (auto run = missing.begin(); run != missing.end();) {
    const auto end = std::upper_bound(run, missing.end(), *run);
    if (static_cast<std::size_t>(end - run) > most) {
      most = static_cast<std::size_t>(end - run);
      best = *run;
    }
    run = end;
  }
  return {best, false};
}

/// The samples of a level, taken from those of the patch.
template <typename Word>
class LevelView {
 public:
  LevelView(std::span<const Word> samples, const Index3& shape, int level)
      : samples_(samples), shape_(shape), level_shape_(LevelShape(shape, level)), level_(level) {}
  Word operator[](std::size_t number) const {
    const auto i = static_cast<std::int64_t>(number);
    const std::int64_t x = i % level_shape_[0];
    const std::int64_t y = i / level_shape_[0] % level_shape_[1];
    const std::int64_t z = i / level_shape_[0] / level_shape_[1];
    return samples_[static_cast<std::size_t>((x << level_) +
                                             shape_[0] * ((y << level_) + shape_[1] * (z << level_)))];
  }

 private:
  std::span<const Word> samples_;
  Index3 shape_;
  Index3 level_shape_;
  int level_;
};

/// Appends the count and list of a level's exceptions; nothing without exceptions.
/// @returns whether there are exceptions
template <typename Word>
bool AppendExceptions(const PatchLayout& layout, int level, std::span<const Word> samples, Validity validity,
                      Word common, Bytes* out) {
  const LevelView<Word> view(samples, layout.shape, level);
  std::uint64_t count = 0;
  std::uint64_t gap = 0;
  Bytes list;
  Bytes values;
  ForEachNewMissing(layout, level, validity, [&](std::size_t i) {
    const Word value = view[i];
    if (value == common) {
      ++gap;
      return true;
    }
    entropy::PutVarint(gap, &list);
    PutLittleEndian(&values, value);
    gap = 0;
    ++count;
    return true;
  });
  if (count == 0) return false;
  entropy::PutVarint(count, out);
  list.insert(list.end(), values.begin(), values.end());
  Bytes frame;
  if (list.size() >= kSmallestFrame) entropy::AppendZstdFrame(list, kZstdLevel, &frame);
  const Bytes& stored = !frame.empty() && frame.size() < list.size() ? frame : list;
  entropy::PutVarint(list.size(), out);
  entropy::PutVarint(stored.size(), out);
  out->insert(out->end(), stored.begin(), stored.end());
  return true;
}

/// Takes the stored list of `count` exceptions with values of `size` bytes off the front of `payload`.
Result<Bytes> TakeList(std::uint64_t count, std::size_t size, ByteSpan* payload) {
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t list_size, entropy::TakeVarint(payload));
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t stored_size, entropy::TakeVarint(payload));
  if (list_size < count * (1 + size) || list_size > count * (kLongestVarint + size))
    return DataLoss("a list of {} missing values has {} bytes", count, list_size);
  if (stored_size > list_size || stored_size > payload->size())
    return DataLoss("a list of missing values is stored in {} bytes", stored_size);
  const ByteSpan stored = payload->first(stored_size);
  *payload = payload->subspan(stored_size);
  Bytes list(list_size);
  if (stored_size == list_size) {
    std::memcpy(list.data(), stored.data(), stored_size);
  } else {
    QUARRY_RETURN_IF_ERROR(entropy::ReadZstdFrame(stored, list));
  }
  return list;
}

template <typename Word>
struct SetMissing {
  QUARRY_INLINE static void Run(const Word* __restrict decoded, const std::uint8_t* __restrict validity,
                                std::size_t count, Word common, Word* __restrict out) {
    for (std::size_t i = 0; i < count; ++i) out[i] = validity[i] != 0 ? decoded[i] : common;
  }
};

/// Sets missing samples to `common`; all are missing if `decoded` is null.
template <typename Word>
void OverlayCommon(const Word* decoded, Validity validity, Word common, Word* out) {
  if (decoded == nullptr) {
    std::fill_n(out, validity.size(), common);
    return;
  }
  RunOnBestInstructionSet<SetMissing<Word>>(decoded, validity.data(), validity.size(), common, out);
}

/// Missing samples that the coarser level has keep their values from there.
template <typename Word>
void OverlayCoarser(const Word* coarse, const Index3& coarse_shape, const Index3& shape, Validity validity,
                    Word* out) {
  for (std::int64_t z = 0; z < coarse_shape[2]; ++z) {
    for (std::int64_t y = 0; y < coarse_shape[1]; ++y) {
      const std::int64_t row = shape[0] * (2 * y + shape[1] * (2 * z));
      for (std::int64_t x = 0; x < coarse_shape[0]; ++x, ++coarse) {
        const std::int64_t i = row + 2 * x;
        if (validity[static_cast<std::size_t>(i)] == 0) out[i] = *coarse;
      }
    }
  }
}

}  // namespace

std::vector<Bytes> AddMissingValues(const PatchLayout& layout, ByteSpan samples,
                                    std::span<const Bytes> validity, std::span<const Bytes> coder_payloads) {
  std::vector<Bytes> payloads(static_cast<std::size_t>(layout.levels));
  WithWordOf(SizeOf(layout.type), [&](auto zero) {
    using Word = decltype(zero);
    const std::span<const Word> words = SamplesOf<Word>(samples);
    const CommonValue<Word> common = MostFrequent<Word>(words, AsValidity(validity[0]));
    PutLittleEndian(&payloads.back(), common.value);
    for (int level = 0; level < layout.levels; ++level) {
      const auto l = static_cast<std::size_t>(level);
      const Bytes& rest = coder_payloads[l];
      const bool listed =
          !common.only &&
          AppendExceptions<Word>(layout, level, words, AsValidity(validity[l]), common.value, &payloads[l]);
      // A count of 0 is omitted when nothing follows it.
      if (!listed && !rest.empty()) entropy::PutVarint(0, &payloads[l]);
      payloads[l].insert(payloads[l].end(), rest.begin(), rest.end());
    }
  });
  return payloads;
}

MissingValuesReader::MissingValuesReader(const PatchLayout& layout)
    : layout_(layout), level_(layout.levels) {}

Status MissingValuesReader::Take(ByteSpan* payload, Validity validity) {
  const std::size_t size = SizeOf(layout_.type);
  places_.clear();
  values_.clear();
  --level_;
  if (level_ == layout_.levels - 1) {
    if (payload->size() < size) return DataLoss("a patch with missing samples has no missing value");
    WithWordOf(size, [&](auto zero) { common_ = GetLittleEndian<decltype(zero)>(payload->data()); });
    *payload = payload->subspan(size);
  }
  if (payload->empty()) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t count, entropy::TakeVarint(payload));
  if (count == 0) return Status::Ok();
  std::uint64_t missing = 0;
  ForEachNewMissing(layout_, level_, validity, [&](std::size_t) { return ++missing != 0; });
  if (count > missing) return DataLoss("{} exceptions among {} missing samples", count, missing);
  QUARRY_ASSIGN_OR_RETURN(const Bytes list, TakeList(count, size, payload));
  ByteSpan rest = list;
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < count; ++i, ++next) {
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t gap, entropy::TakeVarint(&rest));
    next += gap;
    if (next >= missing) return DataLoss("an exception at position {} of {} missing samples", next, missing);
    places_.push_back(static_cast<std::uint32_t>(next));
  }
  if (rest.size() != count * size) return DataLoss("{} missing values in {} bytes", count, rest.size());
  WithWordOf(size, [&](auto zero) {
    for (; !rest.empty(); rest = rest.subspan(size)) {
      values_.push_back(GetLittleEndian<decltype(zero)>(rest.data()));
    }
  });
  return Status::Ok();
}

void MissingValuesReader::Overlay(ByteSpan decoded, Validity validity) {
  const Index3 shape = LevelShape(layout_.shape, level_);
  const Bytes coarse = std::move(samples_);
  samples_ = Bytes(validity.size() * SizeOf(layout_.type));
  WithWordOf(SizeOf(layout_.type), [&](auto zero) {
    using Word = decltype(zero);
    Word* out = reinterpret_cast<Word*>(samples_.data());
    OverlayCommon<Word>(decoded.empty() ? nullptr : reinterpret_cast<const Word*>(decoded.data()), validity,
                        static_cast<Word>(common_), out);
    if (!all_common_) {
      OverlayCoarser<Word>(reinterpret_cast<const Word*>(coarse.data()),
                           LevelShape(layout_.shape, level_ + 1), shape, validity, out);
    }
    std::size_t place = 0;
    std::size_t next = 0;
    if (places_.empty()) return;
    ForEachNewMissing(layout_, level_, validity, [&](std::size_t i) {
      if (place++ == places_[next]) out[i] = static_cast<Word>(values_[next++]);
      return next < places_.size();
    });
  });
  if (!places_.empty()) all_common_ = false;
}

void MissingValuesReader::Refine(ByteSpan decoded, Validity validity) {
  WithWordOf(SizeOf(layout_.type), [&](auto zero) {
    using Word = decltype(zero);
    const Word* from = reinterpret_cast<const Word*>(decoded.data());
    Word* out = reinterpret_cast<Word*>(samples_.data());
    for (std::size_t i = 0; i < validity.size(); ++i) out[i] = validity[i] != 0 ? from[i] : out[i];
  });
}

}  // namespace quarry::mask
