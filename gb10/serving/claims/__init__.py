"""What gb10 asserts of the machine, its images and kernels, and what reports of real machines say of it."""
