"""What the driver says of the first GPU: its limits, by cuda-bindings; its clocks, by nvidia-ml-py."""

from gb10.inside.selftest.common import checked, first_device, library, say


def main() -> None:
    """One line."""
    driver = library("cuda.bindings.driver")
    device = first_device(driver)
    names = driver.CUdevice_attribute

    def attribute(name: str) -> int:
        return int(checked(driver.cuDeviceGetAttribute(getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}"), device)))

    major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    say(
        "device",
        name=checked(driver.cuDeviceGetName(128, device)).split(b"\0")[0].decode(),
        capability=f"{major}.{minor}",
        sm_count=attribute("MULTIPROCESSOR_COUNT"),
        shared_memory=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        integrated=bool(attribute("INTEGRATED")),
        memory=int(checked(driver.cuDeviceTotalMem(device))),
        driver=int(checked(driver.cuDriverGetVersion())),
    )


if __name__ == "__main__":
    main()
