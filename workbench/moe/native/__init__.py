"""The training pass in bf16 on a CPU as compiled kernels, built where a C++ compiler exists."""
