#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "quarry/geometry/sample_place.h"

namespace quarry {

/// The array of a level while a read fills it: the thread that reads, and those that decode, in any order,
/// each patch by one of them. Tasks may outlive the read: none begins to write after Stop. Thread-safe.
class ArrayFilling {
 public:
  /// @param array       outlives the filling until Stop
  /// @param patches     of the plan
  /// @param past_store  patches that go to the array whole are not kept in the store
  ArrayFilling(const SampleArray& array, int level, std::size_t patches, bool past_store)
      : array_(array), level_(level), past_store_(past_store), states_(patches, State::kOpen) {}
  ~ArrayFilling() { Stop(); }
  ArrayFilling(const ArrayFilling&) = delete;
  ArrayFilling& operator=(const ArrayFilling&) = delete;

  const SampleArray& array() const { return array_; }
  int level() const { return level_; }
  bool past_store() const { return past_store_; }

  /// The right to write the samples of a patch. If it goes before Done, somebody else may have it.
  class Turn {
   public:
    Turn() = default;
    ~Turn() { Release(); }
    Turn(Turn&& other) noexcept { *this = std::move(other); }
    Turn& operator=(Turn&& other) noexcept {
      std::swap(filling_, other.filling_);
      std::swap(patch_, other.patch_);
      std::swap(writing_, other.writing_);
      return *this;
    }

    explicit operator bool() const { return filling_ != nullptr; }
    /// Before the first sample is written. False: nobody wants the samples any more.
    bool BeginWriting();
    /// All samples of the patch are written, with SamplePlace::EndWriting.
    void Done() { End(State::kWritten); }
    void Release() { End(State::kOpen); }

   private:
    friend class ArrayFilling;
    enum class State : std::uint8_t { kOpen, kTaken, kWritten };
    Turn(ArrayFilling* filling, std::size_t patch) : filling_(filling), patch_(patch) {}
    void End(State state);

    ArrayFilling* filling_ = nullptr;
    std::size_t patch_ = 0;
    bool writing_ = false;
  };

  /// Nothing if the patch is written, or another has its turn. The filling outlives what is returned.
  Turn TryTake(std::size_t patch);

  /// Waits while somebody has the turn of a patch. Returns whether it is written.
  /// @param cancelled  asked from time to time; true ends the waiting
  bool AwaitPatch(std::size_t patch, const std::function<bool()>& cancelled);

  /// Waits for those who write. The array may go afterwards.
  void Stop();

 private:
  using State = Turn::State;

  const SampleArray array_;
  const int level_;
  const bool past_store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
  std::size_t writing_ = 0;  ///< turns that write
  bool stopped_ = false;
};

}  // namespace quarry
