#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstring>
#include <mutex>

#include "device.h"

namespace testdev {
namespace {

struct GeneratorImpl final : c10::GeneratorImpl {
  explicit GeneratorImpl(int index)
      : c10::GeneratorImpl({c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)},
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(std::uint64_t seed) override { state = {seed, 0}; }
  void set_offset(std::uint64_t offset) override { state[1] = offset; }
  std::uint64_t get_offset() const override { return state[1]; }
  std::uint64_t current_seed() const override { return state[0]; }
  std::uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return state[0];
  }
  void set_state(const c10::TensorImpl& from) override {
    TORCH_CHECK(from.numel() == sizeof state && from.device().is_cpu(), "testdev: not a state of its generator");
    std::memcpy(state.data(), from.data(), sizeof state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::TensorBase tensor = at::detail::empty_cpu({sizeof state}, c10::ScalarType::Byte);
    std::memcpy(tensor.mutable_data_ptr(), state.data(), sizeof state);
    return tensor.getIntrusivePtr();
  }
  GeneratorImpl* clone_impl() const override {
    auto* copy = new GeneratorImpl(device_.index());
    copy->state = state;
    return copy;
  }

  std::array<std::uint64_t, 2> state{c10::default_rng_seed_val, 0};  // the seed, the kernels launched since
};

}  // namespace

const at::Generator& default_generator(int device) {
  static auto* all = [] {
    auto* made = new std::array<at::Generator, kDevices>;
    for (int index = 0; index < kDevices; ++index) (*made)[static_cast<std::size_t>(index)] = new_generator(index);
    return made;
  }();
  return all->at(static_cast<std::size_t>(device));
}

at::Generator new_generator(int device) { return at::make_generator<GeneratorImpl>(device); }

at::Generator next_kernel_generator(const std::optional<at::Generator>& generator, int device) {
  at::Generator from = generator && generator->defined() ? *generator : default_generator(device);
  const std::lock_guard lock(from.mutex());
  auto* impl = static_cast<GeneratorImpl*>(from.unsafeGetGeneratorImpl());
  std::uint64_t mixed = impl->state[0] + 0x9e3779b97f4a7c15U * ++impl->state[1];  // SplitMix64
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return at::detail::createCPUGenerator(mixed ^ (mixed >> 31));
}

}  // namespace testdev
