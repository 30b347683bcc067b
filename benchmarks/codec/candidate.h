#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/codec/volume.h"

namespace quarry::bench {

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds of the same work, patch by patch, in several passes over the volume.
class PassTimes {
 public:
  explicit PassTimes(std::size_t patches) : best_(patches, -1) {}

  void StartPass() { passes_.push_back(0); }
  void Add(std::size_t patch, double seconds) {
    passes_.back() += seconds;
    if (best_[patch] < 0 || seconds < best_[patch]) best_[patch] = seconds;
  }

  /// The shortest time of each patch, summed: on a busy machine no whole pass is undisturbed, but most
  /// patches are in one of them.
  double Best() const;
  /// Seconds of one patch.
  double Best(std::size_t patch) const { return best_[patch]; }
  /// Seconds of all passes: much more than Best where the machine was busy.
  double Median() const;

 private:
  std::vector<double> best_;
  std::vector<double> passes_;
};

/// One way of coding the patches of a volume, with its payloads and times. Every call works on one patch, so
/// that candidates can take turns.
class Candidate {
 public:
  Candidate(std::string name, bool lossless, const Volume& volume)
      : encode_times(volume.patches.size()),
        decode_times(volume.patches.size()),
        name_(std::move(name)),
        lossless_(lossless),
        volume_(volume) {}
  virtual ~Candidate() = default;

  const std::string& name() const { return name_; }
  bool lossless() const { return lossless_; }

  virtual void StartEncodePass() { encode_times.StartPass(); }
  virtual void StartDecodePass() { decode_times.StartPass(); }

  /// Encodes patch `index`; keeps the payload of the first pass. @errors what the coder says
  virtual Status Encode(std::size_t index) = 0;
  /// Decodes the payload of patch `index` to decoded().
  virtual Status Decode(std::size_t index) = 0;
  virtual ByteSpan decoded() const = 0;

  /// Largest error that the candidate's own record admits; nothing where it keeps none.
  virtual std::optional<double> recorded_error() const { return std::nullopt; }
  /// Payload of all patches, masks included.
  virtual std::uint64_t bytes() const = 0;
  /// Adds what only this kind of candidate knows.
  virtual void Describe(nlohmann::ordered_json* /*result*/) const {}

  PassTimes encode_times;
  PassTimes decode_times;

 protected:
  const Volume& volume() const { return volume_; }
  const Patch& patch(std::size_t index) const { return volume_.patches[index]; }

 private:
  std::string name_;
  bool lossless_;
  const Volume& volume_;
};

/// A coder of Quarry, with masks and error record as in datasets. Encode times are those of the coder alone;
/// those with masks and error record are measured in turn with them.
/// @param tolerance  [unit of the samples]; ignored by a lossless coder
std::unique_ptr<Candidate> NewCoderCandidate(const PatchCoder& coder, const Volume& volume, double tolerance);

/// zfp alone at fixed accuracy `tolerance`. It keeps far below: its largest error is a fifth of it.
std::unique_ptr<Candidate> NewZfpCandidate(const Volume& volume, double tolerance);
/// zfp alone at the accuracy, searched patch by patch, at which the largest error just holds the tolerance.
/// Times exclude the search, but include the division and multiplication that free zfp from powers of two.
std::unique_ptr<Candidate> NewTunedZfpCandidate(const Volume& volume, double tolerance);
/// zfp's reversible mode; integers of 8 and 16 bits as int32.
std::unique_ptr<Candidate> NewReversibleZfpCandidate(const Volume& volume);

/// zstd of the samples as they are, or of their bytes sorted by significance.
std::unique_ptr<Candidate> NewZstdCandidate(const Volume& volume, int level, bool shuffle);

}  // namespace quarry::bench
