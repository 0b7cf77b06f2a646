// A GPU that does nothing. Fake tensors need no GPU, but autograd asks for the device's streams and fails without a
// device: a build of torch without CUDA has none, one with CUDA looks for a driver. When torch is imported, it uses
// the hooks with the highest priority and the guard that was registered last.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace at {
struct CUDAHooks : CUDAHooksInterface {
  CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return false; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  long versionRuntimeCuDNN() const override { return 0; }
};
C10_REGISTER_CLASS_WITH_PRIORITY(CUDAHooksRegistry, CUDAHooks, c10::REGISTRY_PREFERRED, CUDAHooks);
}
namespace c10::impl {
template <DeviceType T>
struct NoDevice : NoOpDeviceGuardImpl<T> {
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Device getDevice() const override { return Device(T, 0); }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, getDevice()); }
  Stream getDefaultStream(Device) const override { return Stream(Stream::DEFAULT, getDevice()); }
  Stream exchangeStream(Stream) const noexcept override { return Stream(Stream::DEFAULT, getDevice()); }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
};
}
// NVIDIA's and Apple's GPUs.
extern "C" void use_no_device() {
  using namespace c10;
  static impl::DeviceGuardImplRegistrar cuda(DeviceType::CUDA, new impl::NoDevice<DeviceType::CUDA>());
  static impl::DeviceGuardImplRegistrar mps(DeviceType::MPS, new impl::NoDevice<DeviceType::MPS>());
}
