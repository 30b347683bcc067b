#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/insitu.h"
#include "quarry/quarry_insitu.h"

/// The object behind a quarry_insitu of the C interface: datasets of any kind.
namespace quarry::insitu::internal {

/// A dataset that takes steps; the calls are those of Dataset.
class AnyDataset {
 public:
  virtual ~AnyDataset() = default;
  virtual Status BeginStep(std::int64_t step, std::optional<double> time) = 0;
  virtual Status Put(const std::string& field, DataType type, std::span<const void* const> address) = 0;
  virtual Status EndStep() = 0;
  virtual Status Close() = 0;
};

template <typename Dataset>
class DatasetOf final : public AnyDataset {
 public:
  explicit DatasetOf(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}
  Status BeginStep(std::int64_t step, std::optional<double> time) override {
    return dataset_->BeginStep(step, time);
  }
  Status Put(const std::string& field, DataType type, std::span<const void* const> address) override {
    return dataset_->Put(field, type, address);
  }
  Status EndStep() override { return dataset_->EndStep(); }
  Status Close() override { return dataset_->Close(); }

 private:
  std::unique_ptr<Dataset> dataset_;
};

template <typename Dataset>
Result<std::unique_ptr<AnyDataset>> Any(Result<std::unique_ptr<Dataset>> opened) {
  if (!opened.ok()) return opened.status();
  return std::unique_ptr<AnyDataset>(std::make_unique<DatasetOf<Dataset>>(*std::move(opened)));
}

/// Opens the dataset once all is declared; `declared` is an error of this rank in doing so. Collective.
using Opener = std::function<Result<std::unique_ptr<AnyDataset>>(
    const Setup& setup, const std::vector<OwnedBox>& boxes, const Status& declared)>;

/// A quarry_insitu whose start calls `open`; otherwise as quarry_insitu_open.
int MakeObject(Opener open, const char* path, int mode, quarry_insitu** out);

}  // namespace quarry::insitu::internal
