"""The few shared structures: they own arrays, hand them to kernels, and can check themselves."""
