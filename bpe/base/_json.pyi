# Nothing here is for Python: the kernels cimport it.
