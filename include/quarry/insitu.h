#pragma once

#include <mpi.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "quarry/data_type.h"
#include "quarry/insitu_setup.h"
#include "quarry/result.h"

/// A running simulation writes its steps into a dataset, without a dump in between.
namespace quarry::insitu {

/// The type of a C++ number; others do not compile.
template <typename T>
constexpr DataType TypeOf() {
  if constexpr (std::is_same_v<T, float>) return DataType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DataType::kFloat64;
  if constexpr (std::is_same_v<T, std::int8_t>) return DataType::kInt8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DataType::kUint8;
  if constexpr (std::is_same_v<T, std::int16_t>) return DataType::kInt16;
  if constexpr (std::is_same_v<T, std::uint16_t>) return DataType::kUint16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return DataType::kUint32;
  if constexpr (std::is_same_v<T, std::int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return DataType::kUint64;
}

/// A dataset that a simulation writes, itself (Dataset) or through other ranks (intransit::Dataset).
///
/// For each step: BeginStep, Put for each field, EndStep, which makes the step visible to readers. All calls
/// are collective over the communicator given to Open, every rank makes the same ones, and every rank gets
/// the same Status. Nothing aborts, throws, prints, or touches the communicator of the host: messages travel
/// on a duplicate. Any number of datasets can be open at once.
///
/// A refused call changes nothing: kInvalidArgument, kFailedPrecondition, kAlreadyExists, kNotFound. After
/// any other error in Put or EndStep the step is gone, published steps stay as they are, and BeginStep may be
/// tried again. If ranks make different calls, such as EndStep and Put, they cannot be brought together
/// again: all further calls but Close are refused, so that none of them waits forever.
///
/// If MPI fails, all ranks get kInternal and the step is gone. The host must handle one case: MPI fails on
/// some ranks in the very messages by which the ranks agree. Those ranks get kAborted, also from every later
/// call, and send nothing more; others may wait for them. End the program then (MPI_Abort). Nothing wrong is
/// published.
/// @threads one caller at a time; the thread may call MPI
class AnyDataset {
 public:
  /// Calls Close if the dataset is still open; collective, before MPI_Finalize.
  virtual ~AnyDataset() = default;
  AnyDataset(const AnyDataset&) = delete;
  AnyDataset& operator=(const AnyDataset&) = delete;

  /// @param step  0 or more; a number that the dataset does not have, or any with OpenMode::kResume
  /// @param time  physical time in the declared unit, if there is one
  /// @errors kInvalidArgument: a negative number; kFailedPrecondition: a step is open; kAlreadyExists: all
  ///         declared fields of the step are published
  virtual Status BeginStep(std::int64_t step, std::optional<double> time = {}) = 0;

  /// Encodes and stages one field of the step. OpenMode::kResume skips a field that is already published. The
  /// samples are read before this returns, and not kept.
  ///
  /// @param type     as declared
  /// @param address  for each owned box, see OwnedBox; ignored for empty ones
  /// @errors kFailedPrecondition: no step is open; kInvalidArgument: unknown field, other type, put before,
  ///         number of addresses; kAlreadyExists: published before. The step is gone after kInternal: disk or
  ///         memory; kOutOfRange: samples that no relative tolerance fits; kUnavailable: between Open and the
  ///         first published step, another process has taken the name
  virtual Status Put(const std::string& field, DataType type, std::span<const void* const> address) = 0;

  /// The same with the type of the array: dataset->Put<float>("pressure", {p.data()}).
  template <typename T>
  Status Put(const std::string& field, std::initializer_list<const T*> address) {
    const std::vector<const void*> untyped(address.begin(), address.end());
    return Put(field, TypeOf<T>(), untyped);
  }

  /// The same with an arrangement of its own for this field: a view for each owned box.
  virtual Status PutViews(const std::string& field, DataType type, std::span<const BoxView> views) = 0;

  /// Publishes the step. No step is open afterwards, even after an error.
  /// @errors kFailedPrecondition: no step was open, or nothing was put; kUnknown: the step is published, but
  /// may not survive a power cut; kInternal
  virtual Status EndStep() = 0;

  /// Drops the step that is open.
  /// @errors kFailedPrecondition: no step was open
  virtual Status AbandonStep() = 0;

  /// Ends the writing; removes a step that is still open.
  /// @errors kFailedPrecondition: there was such a step; the dataset is closed all the same
  virtual Status Close() = 0;

  /// Warnings about published steps since the last call: each is a sentence for the user of the program. Not
  /// collective: one rank has them, the others none. The warnings of intransit::Dataset are in
  /// intransit::Served.
  virtual std::vector<std::string> TakeWarnings() = 0;

 protected:
  AnyDataset() = default;
};

/// A dataset whose ranks encode and write their samples themselves.
class Dataset : public AnyDataset {
 public:
  /// @param comm   of the ranks that own data; the other ranks of the program are not involved
  /// @param setup  the same on every rank
  /// @param boxes  what this rank owns in every step, any number. Together the boxes of all ranks cover the
  ///               grid once.
  /// @param found  an earlier error of this rank: then all ranks get it
  /// @errors kInvalidArgument: declaration or boxes are wrong; kAlreadyExists, kNotFound: see OpenMode;
  ///         kUnavailable: another process is writing the dataset; kDataLoss: the existing dataset is damaged
  static Result<std::unique_ptr<Dataset>> Open(MPI_Comm comm, const Setup& setup,
                                               const std::vector<OwnedBox>& boxes,
                                               const Status& found = Status::Ok());

  /// Seconds of this rank in each phase of the pipeline.
  virtual const writer::PhaseSeconds& seconds() const = 0;
};

}  // namespace quarry::insitu
